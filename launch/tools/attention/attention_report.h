#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/support/text/json.h"

namespace tessera {

/// What one head of one layer attends to in a sequence of T tokens.
struct HeadAttention {
  int64_t layer = 0;
  int64_t head = 0;
  std::vector<float> weights;  ///< (T, T): how much query t takes of key s; 0 where it is hidden
};

struct SequenceAttention {
  std::vector<int32_t> ids;          ///< (T), tokens of the vocabulary
  std::vector<std::string> tokens;   ///< (T), their texts: any bytes
  std::vector<uint8_t> hidden;       ///< (T, T): 1 where query t may not see key s
  std::vector<HeadAttention> heads;  ///< by layer, then head; some may be left out

  int64_t num_tokens() const { return static_cast<int64_t>(tokens.size()); }
};

/// The attention weights of a model's heads for real input, to be looked at.
struct AttentionReport {
  std::string checkpoint;  ///< where the weights come from
  std::string model;       ///< in words: kind, layers, heads
  std::string mask;        ///< in words: what is hidden
  std::vector<SequenceAttention> sequences;
};

/// Throws, naming sequence, layer and head, if the sizes within a report disagree, heads are not in
/// order, or a weight is no number from 0 to 1, or is not 0 where the key is hidden.
void check(const AttentionReport& report);

/// {"checkpoint", "model", "mask", "sequences": [{"ids": [...], "tokens": [...], "hidden": [[0 or
/// 1, one a key], one a query], "heads": [{"layer", "head", "weights": [[...], ...]}, ...]}, ...]}.
/// Weights have 6 significant digits; bytes of a token that are no UTF-8 become U+FFFD. Throws as
/// check() does.
Json to_json(const AttentionReport& report);

}  // namespace tessera
