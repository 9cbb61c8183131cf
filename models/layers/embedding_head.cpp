#include "models/layers/embedding_head.h"

#include "core/arena.h"
#include "core/ops/pooling.h"
#include "core/trace/trace.h"
#include "models/layers/pooling.h"
#include "parallel/communicators/traffic.h"

namespace tessera {

Tensor EmbeddingHead::forward(const StepContext& ctx, const Tensor& hidden, const TokenBatch& batch,
                              float length) {
  const TraceRange range("embedding head");
  const TrafficScope traffic(Traffic::loss);
  const int64_t documents = batch.cut.defined() ? batch.cut.num_documents() : batch.num_documents();
  const Shape shape = {documents, hidden.dim(-1)};
  Saved& saved = saved_.at(ctx);
  saved = {length, ctx.arena.allocate(shape, DType::f32),
           ctx.arena.allocate({shape[0]}, DType::f32)};
  const Arena::Scope scope(ctx.arena);
  const Tensor pooled = pool_all_documents(ctx, hidden, batch, pooling_, tp_);
  normalize_rows(pooled, length, saved.embeddings, saved.inverse_norm);
  return saved.embeddings;
}

void EmbeddingHead::backward(const StepContext& ctx, const Tensor& gradient,
                             const TokenBatch& batch, Tensor dhidden) {
  const TraceRange range("embedding head");
  const Arena::Scope scope(ctx.arena);
  const Saved& saved = saved_.at(ctx);
  const Tensor dpooled = ctx.arena.allocate(gradient.shape(), dhidden.dtype());
  normalize_rows_backward(gradient, saved.embeddings, saved.length, saved.inverse_norm, dpooled);
  pool_all_documents_backward(ctx, dpooled, batch, pooling_, dhidden);
}

}  // namespace tessera
