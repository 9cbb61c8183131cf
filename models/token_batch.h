#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace tessera {

/// One micro-batch of a data rank, as models take it: the tokens of up to `sequences` rows of up to
/// `seq_length` tokens each, without their padding, one row after the other. N tokens form S
/// documents; tokens of one document attend to one another, and to no others. All int32, on the
/// model's device. N, S and M may be 0.
struct TokenBatch {
  int64_t sequences = 0;   ///< B, before padding is left out
  int64_t seq_length = 0;  ///< T

  Tensor tokens;       // (N)
  Tensor positions;    // (N), of each token in its document
  Tensor token_types;  // (N)
  Tensor padded_rows;  // (N), b × T + t
  Tensor documents;    // (S + 1), cumulative lengths: document i has tokens documents[i] onward
  int64_t document_length = 0;  ///< as in AttentionMask: of each document; 0: not known, or not so

  /// The M tokens with a loss, ascending, and what they should be.
  Tensor target_rows;  // (M), in [0, N)
  Tensor targets;      // (M)

  /// What a document as a whole is; kIgnoreTarget where that has no loss.
  Tensor labels;  // (S)

  int64_t num_tokens() const { return tokens.numel(); }
  int64_t num_documents() const { return documents.numel() - 1; }
  int64_t num_targets() const { return targets.numel(); }
};

}  // namespace tessera
