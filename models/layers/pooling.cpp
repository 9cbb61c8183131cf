#include "models/layers/pooling.h"

#include "core/arena.h"
#include "core/ops/elementwise.h"
#include "core/ops/pooling.h"
#include "parallel/layers/tensor_regions.h"

namespace tessera {
namespace {

Tensor first_tokens(const TokenBatch& batch) {
  return batch.documents.slice(0, batch.num_documents());
}

}  // namespace

Tensor pool_documents(const StepContext& ctx, const Tensor& hidden, const TokenBatch& batch,
                      Pooling pooling, Communicator& tp) {
  if (pooling == Pooling::cls) return chosen_rows(ctx, hidden, first_tokens(batch), tp);
  const Shape shape = {batch.num_documents(), hidden.dim(-1)};
  const Tensor pooled = ctx.arena.allocate(shape, hidden.dtype());
  if (!ctx.rows.split()) {
    pool_mean(hidden, batch.documents, pooled);
    return pooled;
  }
  const Arena::Scope scope(ctx.arena);
  const Tensor part = ctx.arena.allocate(shape, DType::f32);  // summed before it is rounded
  pool_mean(hidden, batch.documents, part, ctx.rows.local().begin);
  tp.all_reduce(part);
  copy(part, pooled);
  return pooled;
}

void pool_documents_backward(const StepContext& ctx, const Tensor& dpooled, const TokenBatch& batch,
                             Pooling pooling, Tensor dhidden) {
  if (pooling == Pooling::cls) {
    return chosen_rows_backward(ctx, dpooled, first_tokens(batch), dhidden);
  }
  pool_mean_backward(dpooled, batch.documents, dhidden, ctx.rows.local().begin);
}

}  // namespace tessera
