#pragma once

#include "models/model_config.h"
#include "models/token_batch.h"
#include "parallel/communicators/communicator.h"
#include "parallel/step_context.h"

namespace tessera {

/// One vector of each document, (S, C) in ctx.arena and the same on every tensor rank, from the
/// local rows of the hidden states, (n, C). Of their dtype. Collective over `tp` if rows are split.
Tensor pool_documents(const StepContext& ctx, const Tensor& hidden, const TokenBatch& batch,
                      Pooling pooling, Communicator& tp);

/// Backward of pool_documents: adds to dhidden (n, C). dpooled (S, C) is the same on every rank.
void pool_documents_backward(const StepContext& ctx, const Tensor& dpooled, const TokenBatch& batch,
                             Pooling pooling, Tensor dhidden);

}  // namespace tessera
