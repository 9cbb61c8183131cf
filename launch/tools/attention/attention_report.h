#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/support/text/json.h"

namespace tessera {

/// The attention of one head of one layer in a sequence of T tokens.
struct HeadAttention {
  int64_t layer = 0;
  int64_t head = 0;
  std::vector<float> weights;  ///< (T, T): weight of key s for query t; 0 if hidden
  bool is_local = false;       ///< whether the layer has a mask of its own, `local_hidden`
};

struct SequenceAttention {
  std::vector<int32_t> ids;                ///< (T), tokens of the vocabulary
  std::vector<std::string> tokens;         ///< (T), their texts: arbitrary bytes
  std::vector<uint8_t> hidden;             ///< (T, T): 1 if query t must not see key s
  std::vector<uint8_t> local_hidden = {};  ///< the same in local layers; empty if there are none
  std::vector<HeadAttention> heads;        ///< by layer, then head; may be a subset

  int64_t num_tokens() const { return static_cast<int64_t>(tokens.size()); }
  const std::vector<uint8_t>& hidden_of(const HeadAttention& head) const {
    return head.is_local ? local_hidden : hidden;
  }
};

/// The attention weights of a model's heads for real input.
struct AttentionReport {
  std::string checkpoint;  ///< where the weights come from
  std::string model;       ///< in words: kind, layers, heads
  std::string mask;        ///< in words: what is hidden
  std::vector<SequenceAttention> sequences;
};

/// Throws, naming sequence, layer and head, if sizes within a report disagree, heads are out of
/// order, a weight is not from 0 to 1, or a hidden key has a weight.
void check(const AttentionReport& report);

/// {"checkpoint", "model", "mask", "sequences": [{"ids": [...], "tokens": [...], "hidden": [[0 or
/// 1, one a key], one a query], "heads": [{"layer", "head", "weights": [[...], ...]}, ...]}, ...]}.
/// If layers differ in what they hide, a sequence also has "local_hidden", and a head "local".
/// Weights have 6 significant digits; bytes of a token that are no UTF-8 become U+FFFD. Throws as
/// check() does.
Json to_json(const AttentionReport& report);

}  // namespace tessera
