#include "parallel/tensor_regions.h"

#include "core/ops/elementwise.h"
#include "core/ops/rows.h"

namespace tessera {
namespace {

/// As all ranks' shares together, of which the first N rows are real. No op reads the others.
Tensor allocate_padded(const StepContext& ctx, const Tensor& like) {
  return ctx.arena.allocate({ctx.rows.parts * ctx.rows.chunk(), like.dim(-1)}, like.dtype());
}

// Also where the rank's rows fill it and it is not used: the dry run that finds the arena's
// capacity is of a full micro-batch, and others leave the last ranks with fewer.
Tensor allocate_share(const StepContext& ctx, const Tensor& like) {
  return ctx.arena.allocate({ctx.rows.chunk(), like.dim(-1)}, like.dtype());
}

Tensor as_matrix(const Tensor& x) { return x.view({x.numel() / x.dim(-1), x.dim(-1)}); }

}  // namespace

Tensor all_rows(const StepContext& ctx, const Tensor& held, Communicator& tp) {
  if (!ctx.rows.split()) return held;
  const Tensor gathered = allocate_padded(ctx, held);
  const Arena::Scope scope(ctx.arena);
  const Tensor rows = as_matrix(held), share = allocate_share(ctx, held);
  const bool fills = rows.dim(0) == share.dim(0);
  if (!fills) copy(rows, share.slice(0, rows.dim(0)));
  tp.all_gather(fills ? rows : share, gathered);
  return gathered.slice(0, ctx.rows.rows).view(ctx.rows.whole_shape(held.shape()));
}

RegionSum::RegionSum(const StepContext& ctx, Tensor out, Communicator& tp)
    : tp_(tp), out_(out), part_(out) {
  if (!ctx.rows.split()) return;
  padded_ = allocate_padded(ctx, out);
  share_ = allocate_share(ctx, out);
  part_ = padded_.slice(0, ctx.rows.rows).view(ctx.rows.whole_shape(out.shape()));
}

std::unique_ptr<PendingCollective> RegionSum::start() {
  if (!padded_.defined()) return tp_.all_reduce_async(out_);
  const Tensor rows = as_matrix(out_);
  const bool fills = rows.dim(0) == share_.dim(0);
  tp_.reduce_scatter(padded_, fills ? rows : share_);
  if (!fills) copy(share_.slice(0, rows.dim(0)), rows);
  return std::make_unique<CompletedCollective>();
}

Tensor chosen_rows(const StepContext& ctx, const Tensor& held, const Tensor& rows,
                   Communicator& tp) {
  const Tensor x = ctx.arena.allocate({rows.numel(), held.dim(-1)}, held.dtype());
  gather_rows(held, rows, x, ctx.rows.held().begin);
  if (ctx.rows.split()) tp.all_reduce(x);  // of each row all but one rank have zeros
  return x;
}

void chosen_rows_backward(const StepContext& ctx, const Tensor& dx, const Tensor& rows,
                          Tensor dheld) {
  scatter_add_rows(dx, rows, dheld, ctx.rows.held().begin);
}

}  // namespace tessera
