#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "core/ops/cross_entropy.h"
#include "launch/data/sample.h"
#include "launch/tokenizers/special_tokens.h"
#include "tests/launch/data/test_files.h"

namespace tessera {

/// A vocabulary for tests: padding 0, unknown 1, start 2, end 3, mask 4. From 5 on, tokens are
/// words; odd ones continue the previous word.
inline constexpr int32_t kUnknown = 1, kStart = 2, kEnd = 3, kMask = 4, kFirstWord = 5;

inline VocabularyTraits test_vocabulary(int64_t vocab_size) {
  VocabularyTraits traits;
  traits.vocab_size = vocab_size;
  traits.special = {.unknown = kUnknown, .start = kStart, .end = kEnd, .padding = 0, .mask = kMask};
  traits.continues_word.resize(static_cast<size_t>(vocab_size));
  for (size_t i = kFirstWord; i < traits.continues_word.size(); i += 2) {
    traits.continues_word[i] = true;
  }
  return traits;
}

/// Checks that a count of n coin tosses with probability p is within 5 standard deviations of its
/// mean. Fails by chance once in 1.7 million times.
inline ::testing::AssertionResult within_5_sigma(int64_t count, int64_t n, double p) {
  const double mean = static_cast<double>(n) * p;
  const double sigma = std::sqrt(mean * (1.0 - p));
  if (std::abs(static_cast<double>(count) - mean) <= 5.0 * sigma) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << count << " of " << n << " is not within 5 sigma of " << p;
}

/// Returns a sample's tokens before masking.
inline std::vector<int32_t> unmasked(const Sample& sample) {
  std::vector<int32_t> tokens = sample.tokens;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (sample.targets[i] != kIgnoreTarget) tokens[i] = sample.targets[i];
  }
  return tokens;
}

/// Writes a dataset of documents of sentences.
inline void write_sentences(const std::string& prefix,
                            const std::vector<std::vector<std::vector<int32_t>>>& documents) {
  IndexedDatasetWriter writer(prefix, {.type = TokenType::u16, .overwrite = true});
  for (const auto& document : documents) {
    for (const auto& sentence : document) {
      writer.append(sentence);
      writer.end_sequence();
    }
    writer.end_document();
  }
  writer.finish();
}

}  // namespace tessera
