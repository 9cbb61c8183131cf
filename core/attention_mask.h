#pragma once

#include <string>

namespace tessera {

/// What a position may not see. Masks are data: they say what is hidden, and each attention
/// implementation says what it takes. Masks are global in batch and sequence; a rank applies them
/// to its own heads.
struct AttentionMask {
  /// Position t sees only positions s ≤ t.
  bool causal = false;

  static AttentionMask none() { return {}; }
  static AttentionMask make_causal() { return {true}; }
};

}  // namespace tessera
