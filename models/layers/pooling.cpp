#include "models/layers/pooling.h"

#include "core/arena.h"
#include "core/ops/elementwise.h"
#include "core/ops/pooling.h"
#include "core/ops/rows.h"
#include "parallel/layers/tensor_regions.h"

namespace tessera {
namespace {

Tensor first_tokens(const TokenBatch& batch) {
  return batch.documents.slice(0, batch.num_documents());
}

/// The means of all documents of a batch.
Tensor means(const StepContext& ctx, const Tensor& hidden, const TokenBatch& batch,
             Communicator& tp) {
  const ContextCut& cut = batch.cut;
  const int64_t documents = cut.defined() ? cut.num_documents() : batch.num_documents();
  const Shape shape = {documents, hidden.dim(-1)};
  const Tensor pooled = ctx.arena.allocate(shape, hidden.dtype());
  if (!ctx.rows.split() && !cut.defined()) {
    pool_mean(hidden, batch.documents, pooled);
    return pooled;
  }
  const Arena::Scope scope(ctx.arena);
  const Tensor part = ctx.arena.allocate(shape, DType::f32);  // summed before it is rounded
  const int64_t first = ctx.rows.local().begin;
  if (cut.defined()) {
    pool_mean(hidden, cut.own_documents, part, first, cut.documents);
    ctx.cp->all_reduce(part);
  } else {
    pool_mean(hidden, batch.documents, part, first);
  }
  if (ctx.rows.split()) tp.all_reduce(part);
  copy(part, pooled);
  return pooled;
}

void means_backward(const StepContext& ctx, const Tensor& dmeans, const TokenBatch& batch,
                    Tensor dhidden) {
  const ContextCut& cut = batch.cut;
  const int64_t first = ctx.rows.local().begin;
  if (cut.defined()) {
    pool_mean_backward(dmeans, cut.own_documents, dhidden, first, cut.documents);
  } else {
    pool_mean_backward(dmeans, batch.documents, dhidden, first);
  }
}

/// Vectors (S, C) of the documents that this context rank counts → those of all documents, on every
/// context rank.
Tensor of_all_ranks(const StepContext& ctx, const Tensor& counted, const ContextCut& cut) {
  const Tensor all = ctx.arena.allocate({cut.num_documents(), counted.dim(1)}, counted.dtype());
  fill(all, 0.0);
  scatter_add_rows(counted, cut.counted, all);
  ctx.cp->all_reduce(all);  // each row is zero on all ranks but one
  return all;
}

Tensor counted_of(const StepContext& ctx, const Tensor& all, const ContextCut& cut) {
  const Tensor counted = ctx.arena.allocate({cut.counted.numel(), all.dim(1)}, all.dtype());
  gather_rows(all, cut.counted, counted);
  return counted;
}

}  // namespace

Tensor pool_documents(const StepContext& ctx, const Tensor& hidden, const TokenBatch& batch,
                      Pooling pooling, Communicator& tp) {
  if (pooling == Pooling::cls) return chosen_rows(ctx, hidden, first_tokens(batch), tp);
  const Tensor all = means(ctx, hidden, batch, tp);
  return batch.cut.defined() ? counted_of(ctx, all, batch.cut) : all;
}

void pool_documents_backward(const StepContext& ctx, const Tensor& dpooled, const TokenBatch& batch,
                             Pooling pooling, Tensor dhidden) {
  if (pooling == Pooling::cls) {
    return chosen_rows_backward(ctx, dpooled, first_tokens(batch), dhidden);
  }
  const Arena::Scope scope(ctx.arena);
  const Tensor all = batch.cut.defined() ? of_all_ranks(ctx, dpooled, batch.cut) : dpooled;
  means_backward(ctx, all, batch, dhidden);
}

Tensor pool_all_documents(const StepContext& ctx, const Tensor& hidden, const TokenBatch& batch,
                          Pooling pooling, Communicator& tp) {
  if (pooling == Pooling::mean) return means(ctx, hidden, batch, tp);
  const Tensor counted = pool_documents(ctx, hidden, batch, pooling, tp);
  return batch.cut.defined() ? of_all_ranks(ctx, counted, batch.cut) : counted;
}

void pool_all_documents_backward(const StepContext& ctx, const Tensor& dpooled,
                                 const TokenBatch& batch, Pooling pooling, Tensor dhidden) {
  if (pooling == Pooling::mean) return means_backward(ctx, dpooled, batch, dhidden);
  const Arena::Scope scope(ctx.arena);
  const bool is_cut = batch.cut.defined();
  const Tensor counted = is_cut ? counted_of(ctx, dpooled, batch.cut) : dpooled;
  pool_documents_backward(ctx, counted, batch, pooling, dhidden);
}

}  // namespace tessera
