#pragma once

#include "models/model_config.h"
#include "models/token_batch.h"
#include "parallel/communicators/communicator.h"
#include "parallel/step_context.h"

namespace tessera {

/// One vector of each document, (S, C) in ctx.arena and the same on every tensor rank, from the
/// local rows of the hidden states, (n, C). Of their dtype. Of a batch that is cut over context
/// ranks, S are the documents that this rank counts. Collective over `tp` if rows are split, and
/// over ctx.cp if means are of a batch that is cut.
Tensor pool_documents(const StepContext& ctx, const Tensor& hidden, const TokenBatch& batch,
                      Pooling pooling, Communicator& tp);

/// Backward of pool_documents: adds to dhidden (n, C). dpooled (S, C) is the same on every tensor
/// rank.
void pool_documents_backward(const StepContext& ctx, const Tensor& dpooled, const TokenBatch& batch,
                             Pooling pooling, Tensor dhidden);

/// The same for all documents of a batch, whichever context rank counts them; the vectors, and
/// their gradients, are the same on every context rank.
Tensor pool_all_documents(const StepContext& ctx, const Tensor& hidden, const TokenBatch& batch,
                          Pooling pooling, Communicator& tp);
void pool_all_documents_backward(const StepContext& ctx, const Tensor& dpooled,
                                 const TokenBatch& batch, Pooling pooling, Tensor dhidden);

}  // namespace tessera
