#pragma once

#include "core/range.h"

namespace tessera {

/// What a position may not see. Masks are data: they say what is hidden, and each attention
/// implementation says what it takes. Masks are global in batch and sequence; a rank applies them
/// to its own heads.
struct AttentionMask {
  /// Position t sees only positions s ≤ t.
  bool causal = false;

  static AttentionMask none() { return {}; }
  static AttentionMask make_causal() { return {true}; }

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
