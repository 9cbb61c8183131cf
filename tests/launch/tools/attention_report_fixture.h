#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/tools/attention/attention_report.h"

namespace tessera::test {

/// A report of one sequence with a causal mask. All visible keys have the same weight.
inline AttentionReport causal_report(const std::vector<std::string>& tokens, int64_t layers,
                                     int64_t heads) {
  AttentionText text;
  AttentionMaps maps;
  text.tokens = tokens;
  const size_t count = tokens.size();
  HeadAttention even;
  for (size_t t = 0; t < count; ++t) {
    text.ids.push_back(static_cast<int32_t>(100 + t));
    for (size_t s = 0; s < count; ++s) {
      maps.hidden.push_back(s > t ? 1 : 0);
      even.weights.push_back(s > t ? 0.0f : 1.0f / static_cast<float>(t + 1));
    }
  }
  for (even.layer = 0; even.layer < layers; ++even.layer) {
    for (even.head = 0; even.head < heads; ++even.head) maps.heads.push_back(even);
  }
  return {"runs/tiny", "a tiny GPT", "causal", {{{text}, {maps}}}};
}

/// A report of an encoder–decoder's cross-attention alone, with one head. All keys have the same
/// weight.
inline AttentionReport cross_report(const std::vector<std::string>& source,
                                    const std::vector<std::string>& target) {
  AttentionReport report = causal_report(source, 0, 0);
  SequenceAttention& sequence = report.sequences[0];
  sequence.texts.push_back(causal_report(target, 0, 0).sequences[0].texts[0]);
  sequence.texts[0].name = "source";
  sequence.texts[1].name = "target";
  const size_t cells = source.size() * target.size();
  const std::vector<float> weights(cells, 1.0f / static_cast<float>(source.size()));
  sequence.attentions = {{.name = "cross",
                          .queries = 1,
                          .keys = 0,
                          .hidden = std::vector<uint8_t>(cells, 0),
                          .heads = {{0, 0, weights}}}};
  return report;
}

}  // namespace tessera::test
