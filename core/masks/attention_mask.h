#pragma once

#include <cstdint>
#include <string>

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

  /// What the host knows of `documents`: all have this many rows. 0: not known, or not so.
  int64_t document_length = 0;

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
};

/// Which parts a mask has: what can be said of a run's masks before there is any data.
struct MaskKinds {
  bool causal = false;
  bool window = false;
  bool lengths = false;
  bool hidden_keys = false;
  bool documents = false;
  bool hidden = false;
  bool additive = false;
  bool compact = false;  ///< the batch goes without its padding (RowPlaces in core/ops/attention.h)
};

MaskKinds kinds_of(const AttentionMask& mask);

/// "causal, documents", or "none".
std::string to_string(const MaskKinds& kinds);

}  // namespace tessera
