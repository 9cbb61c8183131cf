#pragma once

#include <cstdint>

#include "core/tensor.h"
#include "parallel/context_cut.h"

namespace tessera {

/// The source texts of a batch for an encoder–decoder, without padding: text i is the source of
/// document i. All tensors are int32. Ns may be 0.
struct SourceTokens {
  int64_t seq_length = 0;  ///< Ts, the most tokens of a row; 0: the model has no source

  Tensor tokens;       // (Ns)
  Tensor positions;    // (Ns), within the text
  Tensor padded_rows;  // (Ns), b × Ts + s
  Tensor documents;    // (S + 1), cumulative lengths: text i starts at documents[i]

  /// If it is defined, the tokens are those of a context rank, and `documents` is undefined.
  ContextCut cut = {};

  int64_t num_tokens() const { return tokens.numel(); }
};

/// One micro-batch of a data rank: the tokens of up to `sequences` rows of up to `seq_length`
/// tokens, concatenated without padding. The N tokens form S documents; tokens attend only within
/// their document. All tensors are on the model's device, and int32 except label_values, patches
/// and hidden. N, S and M may be 0.
struct TokenBatch {
  int64_t sequences = 0;   ///< B
  int64_t seq_length = 0;  ///< T

  Tensor tokens;       // (N)
  Tensor positions;    // (N), within the document
  Tensor token_types;  // (N)
  Tensor padded_rows;  // (N), b × T + t
  Tensor documents;    // (S + 1), cumulative lengths: document i starts at documents[i]
  int64_t document_length =
      0;  ///< as in AttentionMask: of every document; 0: unknown or not uniform

  /// The M tokens with a loss, in ascending order, and their targets.
  Tensor target_rows;  // (M), in [0, N)
  Tensor targets;      // (M)

  /// (N) uint8: 1 for tokens whose key is hidden from all queries, those with a target; undefined:
  /// none is, or `cut` has it.
  Tensor hidden;

  /// The label of each document; kIgnoreTarget: no loss.
  Tensor labels;  // (S)
  /// For images, whose tokens are patches: the normalized numbers of each token's patch, ordered by
  /// channel, row and column; 0 for class tokens. D = ModelTraits::patch_width.
  Tensor patches = {};  // (N, D) fp32
  /// Instead of classes: the numbers that each document's head must predict, of which there are K =
  /// ModelTraits::label_width. Each document then has a row to itself. 0 × 0 if K is 0.
  Tensor label_values;  // (S, K) fp32

  SourceTokens source = {};

  /// If it is defined, the tokens are those of a context rank, and the S documents are those that
  /// it counts: documents[i] is the row of the first token, and documents[S] is N.
  ContextCut cut = {};

  int64_t num_tokens() const { return tokens.numel(); }
  int64_t num_documents() const { return documents.numel() - 1; }
  int64_t num_targets() const { return targets.numel(); }
};

}  // namespace tessera
