#pragma once

#include <cstdint>

#include "core/range.h"
#include "core/tensor.h"

namespace tessera {

/// What a position may not see. Masks are data and compose: a key is hidden from a query if any
/// part hides it. They are global in batch and sequence; a rank applies them to its own heads. What
/// a part says of a query at position t and a key at position s of sequence b, for head h:
struct AttentionMask {
  /// Only keys s ≤ t are seen.
  bool causal = false;

  /// Only keys with |t − s| < window are seen; 0 is no window.
  int64_t window = 0;

  /// (B) int32: only keys s < lengths[b] are seen; padding at the end of a sequence.
  Tensor lengths = {};

  /// (B, T) uint8: key s of sequence b is hidden where this is 1; padding anywhere.
  Tensor hidden_keys = {};

  /// (S + 1) int32, cumulative lengths: row r = b × T + t belongs to document i with documents[i] ≤
  /// r < documents[i + 1], and sees only rows of its own document. Starts with 0, ends with B × T;
  /// no document reaches over the end of a sequence.
  Tensor documents = {};

  /// (T, T), (B, 1, T, T) or (B, H, T, T) uint8, H being all heads: 1 hides.
  Tensor hidden = {};

  /// Shapes as of `hidden`, fp32: added to the scaled scores; −inf hides.
  Tensor additive = {};

  static AttentionMask none() { return {}; }
  static AttentionMask make_causal() {
    AttentionMask mask;
    mask.causal = true;
    return mask;
  }

  /// Whether query position t may not see key position s.
  bool hides(int64_t t, int64_t s) const { return causal && s > t; }
};

/// How much of a tile of queries × keys a mask hides.
enum class TileCover : uint8_t { none, part, all };

inline TileCover cover(const AttentionMask& mask, Range queries, Range keys) {
  if (!mask.causal || keys.end <= queries.begin + 1) return TileCover::none;
  return keys.begin >= queries.end ? TileCover::all : TileCover::part;
}

}  // namespace tessera
