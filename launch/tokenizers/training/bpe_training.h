#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/tokenizers/bpe/bpe_description.h"
#include "launch/tokenizers/training/count_words.h"

namespace tessera {

struct BpeTrainingOptions {
  int64_t vocab_size = 50257;
  /// Pairs that are rarer are not joined.
  int64_t min_count = 2;
  /// The last tokens of the vocabulary.
  std::vector<std::string> special = {"<|endoftext|>"};
};

/// A byte-level BPE tokenizer made of words, as Hugging Face's trainer makes one: the 256 bytes in
/// GPT-2's order, what the most frequent pairs of neighbours become (join_pairs.h), and the special
/// tokens. The same counts give the same tokenizer. It is smaller than vocab_size where no pair is
/// left that is frequent enough.
///
/// Throws if there are no words, if the bytes and the special tokens alone are more than
/// vocab_size, or if a special token is empty, there twice, not UTF-8 or what merges make.
BpeDescription train_bpe(const WordCounts& words, const BpeTrainingOptions& options);

}  // namespace tessera
