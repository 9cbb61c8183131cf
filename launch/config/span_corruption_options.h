#pragma once

#include <cstdint>

namespace tessera {

/// Span corruption (Raffel et al., "T5", 2020): spans of tokens are replaced by sentinels, and the
/// model writes each sentinel and the tokens that it replaced.
struct SpanCorruptionOptions {
  double noise_density = 0.15;          ///< the fraction of tokens that are replaced
  double mean_noise_span_length = 3.0;  ///< in tokens
  int64_t sentinels = 100;              ///< tokens beyond the tokenizer's: the most spans of a text

  bool operator==(const SpanCorruptionOptions&) const = default;
};

}  // namespace tessera
