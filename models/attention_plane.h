#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "core/memory.h"

namespace tessera {

/// A model's own attention mask: what a query at position t of a document hides of the key at
/// position s, or adds to its score, the same in all layers. AttentionMask::hidden or `additive` by
/// position.
struct AttentionPlane {
  /// (1, T, T), for all heads, or (H, T, T), in host memory: uint8, where 1 hides, or fp32 that is
  /// added to the scaled scores, where −inf hides.
  OwnedTensor values;
  std::string checksum;  ///< identifies the values in messages and checkpoints

  bool is_additive() const { return values.tensor.dtype() == DType::f32; }
  int64_t heads() const { return values.tensor.dim(0); }
  int64_t length() const { return values.tensor.dim(1); }

  /// Whether head h, among those of all ranks, hides a pair.
  bool hides(int64_t h, int64_t t, int64_t s) const {
    const int64_t size = length();
    const int64_t at = ((heads() == 1 ? 0 : h) * size + t) * size + s;
    if (!is_additive()) return values.tensor.data<uint8_t>()[at] != 0;
    return values.tensor.data<float>()[at] == -std::numeric_limits<float>::infinity();
  }

  /// Whether two heads hide the same pairs.
  bool hides_the_same(int64_t head, int64_t other) const {
    for (int64_t t = 0; t < length(); ++t) {
      for (int64_t s = 0; s < length(); ++s) {
        if (hides(head, t, s) != hides(other, t, s)) return false;
      }
    }
    return true;
  }
};

}  // namespace tessera
