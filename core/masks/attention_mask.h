#pragma once

#include <cstdint>
#include <string>

#include "core/tensor.h"

namespace tessera {

/// The keys that a position cannot attend to. Masks are data and compose: a key is hidden from a
/// query if any part hides it. Masks are global in batch and sequence; a rank applies them to its
/// local heads. The parts below describe a query at position t and a key at position s of sequence
/// b, for head h. `prefix` and `global_tokens` are exceptions of one part each, and count positions
/// from the first row of a document or, without documents, of a sequence.
struct AttentionMask {
  /// Only keys s ≤ t are visible.
  bool causal = false;

  /// Only keys with |t − s| < window are visible; 0 disables the window.
  int64_t window = 0;

  /// Only keys with (t − s) % dilation = 0 are visible in the window, and the window is as many
  /// times as wide: |t − s| < window × dilation (Beltagy et al., "Longformer", 2020). 1: all.
  int64_t dilation = 1;

  /// The first positions, whose keys `causal` does not hide (Liu et al., 2018; "prefix LM").
  int64_t prefix = 0;

  /// The first positions, of which the window hides no key from any query, and nothing from the
  /// queries ("Longformer"; with `causal`, attention sinks: Xiao et al., 2023).
  int64_t global_tokens = 0;

  /// (B) int32: only keys s < lengths[b] are visible; padding at the end of a sequence.
  Tensor lengths = {};

  /// (B, T) uint8: key s of sequence b is hidden where this is 1; padding anywhere.
  Tensor hidden_keys = {};

  /// (S + 1) int32, cumulative lengths: row r = b × T + t belongs to document i with documents[i] ≤
  /// r < documents[i + 1] and sees only rows of that document. Starts with 0 and ends with B × T;
  /// no document crosses the end of a sequence.
  Tensor documents = {};

  /// The number of rows of every document, if they are equal and the host knows it; otherwise 0.
  int64_t document_length = 0;

  /// (T, T), (B, 1, T, T) or (B, H, T, T) uint8, where H counts the heads of all ranks: 1 hides.
  /// Or by position, (1, R, R) or (H, R, R): rows and columns are the positions of query and key,
  /// counted like those of `prefix`, and R is at least the longest sequence. So a document has the
  /// same mask wherever it is in a row.
  Tensor hidden = {};

  /// Shaped like `hidden`, fp32: added to the scaled scores; −inf hides.
  Tensor additive = {};

  static AttentionMask none() { return {}; }
  static AttentionMask make_causal() {
    AttentionMask mask;
    mask.causal = true;
    return mask;
  }
};

/// The parts that a mask has: what is known about a run's masks before there is data.
struct MaskKinds {
  bool causal = false;
  bool window = false;
  bool dilation = false;
  bool prefix = false;
  bool global_tokens = false;
  bool lengths = false;
  bool hidden_keys = false;
  bool documents = false;
  bool hidden = false;
  bool additive = false;
  bool hidden_by_position = false;    ///< `hidden` is (1, R, R) or (H, R, R)
  bool additive_by_position = false;  ///< the same of `additive`
  bool compact = false;  ///< the batch has no padding (PaddedRows in core/ops/attention.h)

  bool operator==(const MaskKinds&) const = default;
};

MaskKinds kinds_of(const AttentionMask& mask);

/// Whether `hidden` or `additive` of a mask, if it is defined, is by position.
inline bool is_by_position(const Tensor& plane) {
  return plane.defined() && plane.shape().rank() == 3;
}

/// "causal, documents", or "none".
std::string to_string(const MaskKinds& kinds);

}  // namespace tessera
