#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/tokenizers/training/count_words.h"

namespace tessera {

struct WordPieceTrainingOptions {
  int64_t vocab_size = 30000;
  /// Rarer pairs are not merged.
  int64_t min_count = 2;
  /// The number of characters to keep, the most frequent first; words with others are [UNK].
  int64_t max_characters = 1000;
};

/// Trains a vocabulary as Hugging Face's WordPieceTrainer does, by byte-pair encoding (Sennrich et
/// al. 2016): BERT's special tokens, the characters that start words and those that continue words,
/// both by code point, then merges of the most frequent adjacent pairs, the earlier tokens first on
/// a tie. Deterministic. The vocabulary is smaller than vocab_size if no pair left is frequent
/// enough.
///
/// Throws if there are no words, or if special tokens and characters alone exceed vocab_size.
std::vector<std::string> train_wordpiece(const WordCounts& words,
                                         const WordPieceTrainingOptions& options);

}  // namespace tessera
