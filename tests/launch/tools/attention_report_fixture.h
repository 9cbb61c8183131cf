#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/tools/attention/attention_report.h"

namespace tessera::test {

/// A report of one sequence with a causal mask. All visible keys have the same weight.
inline AttentionReport causal_report(const std::vector<std::string>& tokens, int64_t layers,
                                     int64_t heads) {
  SequenceAttention sequence;
  sequence.tokens = tokens;
  const size_t count = tokens.size();
  HeadAttention even;
  for (size_t t = 0; t < count; ++t) {
    sequence.ids.push_back(static_cast<int32_t>(100 + t));
    for (size_t s = 0; s < count; ++s) {
      sequence.hidden.push_back(s > t ? 1 : 0);
      even.weights.push_back(s > t ? 0.0f : 1.0f / static_cast<float>(t + 1));
    }
  }
  for (even.layer = 0; even.layer < layers; ++even.layer) {
    for (even.head = 0; even.head < heads; ++even.head) sequence.heads.push_back(even);
  }
  return {"runs/tiny", "a tiny GPT", "causal", {sequence}};
}

}  // namespace tessera::test
