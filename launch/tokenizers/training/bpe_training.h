#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "launch/support/files/replace.h"
#include "launch/tokenizers/bpe/bpe_description.h"
#include "launch/tokenizers/training/count_words.h"

namespace tessera {

struct BpeTrainingOptions {
  int64_t vocab_size = 50257;
  /// Rarer pairs are not merged.
  int64_t min_count = 2;
  /// Appended to the vocabulary.
  std::vector<std::string> special = {"<|endoftext|>"};
};

/// Trains a byte-level BPE tokenizer as Hugging Face's trainer does: the 256 bytes in GPT-2's
/// order, the merges of the most frequent adjacent pairs (join_pairs.h), and the special tokens.
/// Deterministic. The vocabulary is smaller than vocab_size if no pair left is frequent enough.
///
/// Throws if there are no words, if bytes and special tokens alone exceed vocab_size, or if a
/// special token is empty, duplicated, invalid UTF-8 or the result of a merge.
BpeDescription train_bpe(const WordCounts& words, const BpeTrainingOptions& options);

/// Writes FOLDER/vocab.json and merges.txt, as tokenizer bpe:FOLDER reads them.
void write_bpe(const std::filesystem::path& folder, const BpeDescription& bpe,
               Replace replace = Replace::refuse);

}  // namespace tessera
