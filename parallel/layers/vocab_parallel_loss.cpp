#include "parallel/layers/vocab_parallel_loss.h"

#include <algorithm>

#include "core/ops/columns.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/elementwise.h"
#include "core/ops/matmul.h"
#include "parallel/communicators/traffic.h"
#include "parallel/layers/linear_gradients.h"

namespace tessera {
namespace {

/// Calls body(begin, end) for each chunk of [0, rows).
template <typename Body>
void for_each_chunk(int64_t rows, Body&& body) {
  for (int64_t begin = 0; begin < rows; begin += VocabParallelLoss::kChunkRows) {
    body(begin, std::min(rows, begin + VocabParallelLoss::kChunkRows));
  }
}

}  // namespace

void VocabParallelLoss::declare_bias(ParameterStore& store, const std::string& name) {
  bias_ = &store.declare({name,
                          {table_.global_shape[0]},
                          {0, vocab_.local},
                          Init::zeros(),
                          /*decay=*/false,
                          vocab_.padded});
}

VocabParallelLoss::Chunk VocabParallelLoss::make_chunk(const StepContext& ctx,
                                                       const Tensor& x) const {
  const int64_t rows = x.dim(0);
  const Tensor logits = ctx.arena.allocate({rows, vocab_.padded}, x.dtype());
  const Tensor statistics = ctx.arena.allocate({3, rows}, DType::f32);
  linear_forward(x, table_.value(), bias_value(), logits);
  const auto part = [&](int64_t i) { return statistics.slice(i, i + 1).view({rows}); };
  return {logits, statistics, part(0), part(1), part(2)};
}

VocabParallelLoss::Chunk VocabParallelLoss::forward_chunk(const StepContext& ctx, const Tensor& x,
                                                          const Tensor& targets, Tensor loss_sum,
                                                          Tensor correct, Tensor margins) {
  Chunk chunk = make_chunk(ctx, x);
  const Tensor global_max = ctx.arena.allocate({x.dim(0)}, DType::f32);
  cross_entropy_statistics(chunk.logits, targets, vocab_.local.begin, vocab_.local.size(),
                           chunk.row_max, chunk.row_sum, chunk.target_logit);
  copy(chunk.row_max, global_max);
  tp_.all_reduce(global_max, ReduceOp::max);
  rescale_sum_exp(chunk.row_max, global_max, chunk.row_sum);
  tp_.all_reduce(chunk.statistics.slice(1, 3));
  if (correct.defined()) cross_entropy_correct(global_max, chunk.target_logit, targets, correct);
  if (margins.defined()) add_scaled(1.0f, chunk.target_logit, -1.0f, global_max, margins);
  chunk.log_sum_exp = global_max;
  cross_entropy_loss(global_max, chunk.row_sum, chunk.target_logit, targets, chunk.log_sum_exp,
                     loss_sum);
  return chunk;
}

Tensor VocabParallelLoss::chunk_gradient(const StepContext& ctx, const Tensor& x,
                                         const Tensor& targets, const Scalar& scale,
                                         Tensor loss_sum) {
  if (tp_.size() > 1) {
    const Chunk chunk = forward_chunk(ctx, x, targets, loss_sum, {}, {});
    cross_entropy_gradient(chunk.logits, targets, vocab_.local.begin, vocab_.local.size(),
                           chunk.log_sum_exp, scale);
    return chunk.logits;
  }
  // No other rank's statistics are needed for the gradient.
  const Chunk chunk = make_chunk(ctx, x);
  cross_entropy_with_gradient(chunk.logits, targets, vocab_.local.size(), scale, chunk.row_max,
                              chunk.row_sum, chunk.target_logit);
  cross_entropy_loss(chunk.row_max, chunk.row_sum, chunk.target_logit, targets,
                     /*log_sum_exp=*/chunk.row_max, loss_sum);
  return chunk.logits;
}

void VocabParallelLoss::loss(const StepContext& ctx, const Tensor& x, const Tensor& targets,
                             Tensor loss_sum, Tensor correct, const TargetScores& each) {
  const TrafficScope traffic(Traffic::loss);
  for_each_chunk(x.dim(0), [&](int64_t begin, int64_t end) {
    const Arena::Scope scope(ctx.arena);
    const Tensor margins = each.margins.defined() ? each.margins.slice(begin, end) : Tensor();
    const Chunk chunk = forward_chunk(ctx, x.slice(begin, end), targets.slice(begin, end), loss_sum,
                                      correct, margins);
    if (!each.losses.defined()) return;
    scale(chunk.target_logit, -1.0f, chunk.target_logit);
    add(chunk.log_sum_exp, chunk.target_logit, each.losses.slice(begin, end));
  });
}

void VocabParallelLoss::loss_and_gradient(const StepContext& ctx, const Tensor& x,
                                          const Tensor& targets, const Scalar& scale,
                                          Tensor loss_sum, Tensor dx) {
  const TrafficScope traffic(Traffic::loss);
  for_each_chunk(x.dim(0), [&](int64_t begin, int64_t end) {
    const Arena::Scope scope(ctx.arena);
    const Tensor x_rows = x.slice(begin, end);
    const Tensor target_rows = targets.slice(begin, end);
    const Tensor dx_rows = dx.slice(begin, end);
    const Tensor dlogits = chunk_gradient(ctx, x_rows, target_rows, scale, loss_sum);
    linear_backward_input(dlogits, table_.value(), dx_rows);
    const auto summing = tp_.all_reduce_async(dx_rows);
    add_linear_gradients(dlogits, x_rows, table_, bias_);
    summing->wait();
  });
  if (bias_ == nullptr) return;
  if (!bias_->frozen) bias_->grad_to_add_to();  // clears it if there were no rows
  ctx.gradient_is_final(*bias_);
}

void VocabParallelLoss::whole_logits(const StepContext& ctx, const Tensor& x, Tensor out) {
  const Arena::Scope scope(ctx.arena);
  const int64_t rows = x.dim(0);
  const Tensor local = ctx.arena.allocate({rows, vocab_.padded}, x.dtype());
  const Tensor gathered = ctx.arena.allocate({tp_.size(), rows, vocab_.padded}, x.dtype());
  linear_forward(x, table_.value(), bias_value(), local);
  tp_.all_gather(local, gathered);
  join_columns(gathered, out);
}

}  // namespace tessera
