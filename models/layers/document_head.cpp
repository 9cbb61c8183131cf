#include "models/layers/document_head.h"

#include "core/arena.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/dropout.h"
#include "core/ops/elementwise.h"
#include "core/ops/rows.h"
#include "core/ops/tanh.h"
#include "core/trace/trace.h"
#include "parallel/communicators/traffic.h"
#include "parallel/layers/tensor_regions.h"

namespace tessera {
namespace {

LinearSpec linear(const ModelConfig& config, const std::string& name, int64_t out_features) {
  return {name, config.hidden_size,   out_features,
          1,    config.linear_bias(), static_cast<float>(config.init_stddev)};
}

/// The first row of each document (S).
Tensor first_rows(const TokenBatch& batch) {
  return batch.documents.slice(0, batch.num_documents());
}

/// Adds the losses of logits (S, K) to loss_sum; returns log_sum_exp (S) for the gradient.
Tensor add_loss(const StepContext& ctx, const Tensor& logits, const Tensor& labels,
                Tensor loss_sum) {
  const Shape rows = {logits.dim(0)};
  const Tensor max = ctx.arena.allocate(rows, DType::f32);
  const Tensor sum = ctx.arena.allocate(rows, DType::f32);
  const Tensor label_logit = ctx.arena.allocate(rows, DType::f32);
  cross_entropy_statistics(logits, labels, 0, logits.dim(1), max, sum, label_logit);
  cross_entropy_loss(max, sum, label_logit, labels, /*log_sum_exp=*/max, loss_sum);
  return max;
}

}  // namespace

DocumentHead::DocumentHead(ParameterStore& store, const ModelConfig& config,
                           const std::string& name, int64_t num_labels, double dropout,
                           Communicator& tp)
    : tp_(tp),
      dropout_(dropout),
      pooler_(store, linear(config, "pooler", config.hidden_size)),
      classifier_(store, linear(config, name, num_labels)) {}

Dropout DocumentHead::dropout(const StepContext& ctx, const TokenBatch& batch) const {
  if (!ctx.training || dropout_ == 0.0) return {};
  const Tensor rows = ctx.arena.allocate({batch.num_documents()}, DType::i32);
  gather_ints(batch.padded_rows, first_rows(batch), rows);
  return ctx.dropout(dropout_, RandomPurpose::pooled_dropout, 0, rows);
}

Tensor DocumentHead::logits(const StepContext& ctx, const Tensor& hidden, const TokenBatch& batch) {
  const TrafficScope traffic(Traffic::loss);
  pooled_ = pooler_.forward(ctx, chosen_rows(ctx, hidden, first_rows(batch), tp_));
  tanh_forward(pooled_, pooled_);
  const Dropout drop = dropout(ctx, batch);
  if (!drop.active()) return classifier_.forward(ctx, pooled_);
  const Tensor dropped = ctx.arena.allocate(pooled_.shape(), pooled_.dtype());
  dropout_forward(pooled_, drop, dropped);
  return classifier_.forward(ctx, dropped);
}

void DocumentHead::loss(const StepContext& ctx, const Tensor& hidden, const TokenBatch& batch,
                        const LossSums& sums, Tensor predictions) {
  const TraceRange range("document head");
  const Arena::Scope scope(ctx.arena);
  const Tensor logit = logits(ctx, hidden, batch);
  add_loss(ctx, logit, batch.labels, sums.document_loss());
  const Tensor likeliest =
      predictions.defined() ? predictions : ctx.arena.allocate({batch.num_documents()}, DType::i32);
  argmax_rows(logit, likeliest);
  count_equal(likeliest, batch.labels, sums.document_correct());
}

void DocumentHead::loss_and_gradient(const StepContext& ctx, const Tensor& hidden,
                                     const TokenBatch& batch, const Scalar& scale,
                                     const LossSums& sums, Tensor dhidden) {
  const TraceRange range("document head");
  const Arena::Scope scope(ctx.arena);
  const Tensor dlogits = logits(ctx, hidden, batch);  // overwritten by its gradient
  const Tensor log_sum_exp = add_loss(ctx, dlogits, batch.labels, sums.document_loss());
  cross_entropy_gradient(dlogits, batch.labels, 0, dlogits.dim(1), log_sum_exp, scale);
  const Tensor dpooled = ctx.arena.allocate(pooled_.shape(), pooled_.dtype());
  classifier_.backward(ctx, dlogits, dpooled);
  const Dropout drop = dropout(ctx, batch);
  if (drop.active()) dropout_backward(dpooled, drop, dpooled);
  tanh_backward(dpooled, pooled_, dpooled);
  const Tensor dfirst = ctx.arena.allocate(pooled_.shape(), pooled_.dtype());
  pooler_.backward(ctx, dpooled, dfirst);
  chosen_rows_backward(ctx, dfirst, first_rows(batch), dhidden);
}

}  // namespace tessera
