#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/tokenizers/training/count_words.h"

namespace tessera {

struct WordPieceTrainingOptions {
  int64_t vocab_size = 30000;
  /// Pairs that are rarer are not joined.
  int64_t min_count = 2;
  /// The most frequent so many characters are kept; words with others are [UNK].
  int64_t max_characters = 1000;
};

/// A vocabulary as Hugging Face's WordPieceTrainer makes one, by byte-pair encoding (Sennrich et
/// al. 2016): BERT's special tokens, the characters at the start of words, those that go on with a
/// word, each by code point, and then the most frequent pair of neighbours again and again, the
/// earlier tokens first where counts are equal. The same counts give the same vocabulary. It is
/// smaller than vocab_size where no pair is left that is frequent enough.
///
/// Throws if there are no words, or if the special tokens and the characters alone are more than
/// vocab_size.
std::vector<std::string> train_wordpiece(const WordCounts& words,
                                         const WordPieceTrainingOptions& options);

}  // namespace tessera
