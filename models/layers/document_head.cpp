#include "models/layers/document_head.h"

#include "core/arena.h"
#include "core/ops/activation.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/dropout.h"
#include "core/ops/elementwise.h"
#include "core/ops/rows.h"
#include "core/ops/tanh.h"
#include "core/trace/trace.h"
#include "models/architecture.h"
#include "parallel/communicators/traffic.h"
#include "parallel/layers/tensor_regions.h"

namespace tessera {
namespace {

LinearSpec linear(const ModelConfig& config, const std::string& name, int64_t out_features,
                  bool bias) {
  return {name, config.hidden_size, out_features, 1, bias, static_cast<float>(config.init_stddev)};
}

std::optional<Norm> make_norm(ParameterStore& store, const ModelConfig& config) {
  if (architecture_of(config.kind).pooler != Pooler::norm) return std::nullopt;
  return Norm(store, "pooler.norm", config, GradientSum::none);
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
                           std::optional<ValueLoss> value_loss, Communicator& tp)
    : tp_(tp),
      dropout_(dropout),
      value_loss_(value_loss),
      pooler_(store, linear(config, "pooler", config.hidden_size, config.linear_bias())),
      norm_(make_norm(store, config)),
      classifier_(store, linear(config, name, num_labels,
                                config.linear_bias() || architecture_of(config.kind).head_bias)) {}

Dropout DocumentHead::dropout(const StepContext& ctx, const TokenBatch& batch) const {
  if (!ctx.training || dropout_ == 0.0) return {};
  const Tensor rows = ctx.arena.allocate({batch.num_documents()}, DType::i32);
  gather_ints(batch.padded_rows, first_rows(batch), rows);
  return ctx.dropout(dropout_, RandomPurpose::pooled_dropout, 0, rows);
}

Tensor DocumentHead::pool(const StepContext& ctx, const Tensor& first) {
  hidden_ = pooler_.forward(ctx, first);
  if (!norm_) {
    tanh_forward(hidden_, hidden_);
    return hidden_;
  }
  const Tensor active = ctx.arena.allocate(hidden_.shape(), hidden_.dtype());
  activation_forward(hidden_, Activation::gelu, active);
  return norm_->forward(ctx, active);
}

void DocumentHead::pool_backward(const StepContext& ctx, Tensor gradient) {
  if (!norm_) return tanh_backward(gradient, hidden_, gradient);
  norm_->backward(ctx, gradient, {}, gradient);
  activation_backward(gradient, hidden_, Activation::gelu, gradient);
}

Tensor DocumentHead::logits(const StepContext& ctx, const Tensor& hidden, const TokenBatch& batch) {
  const TrafficScope traffic(Traffic::loss);
  const Tensor pooled = pool(ctx, chosen_rows(ctx, hidden, first_rows(batch), tp_));
  const Dropout drop = dropout(ctx, batch);
  if (!drop.active()) return classifier_.forward(ctx, pooled);
  const Tensor dropped = ctx.arena.allocate(pooled.shape(), pooled.dtype());
  dropout_forward(pooled, drop, dropped);
  return classifier_.forward(ctx, dropped);
}

void DocumentHead::loss(const StepContext& ctx, const Tensor& hidden, const TokenBatch& batch,
                        const LossSums& sums, Tensor predictions) {
  const TraceRange range("document head");
  const Arena::Scope scope(ctx.arena);
  const Tensor logit = logits(ctx, hidden, batch);
  if (value_loss_) {
    value_loss(logit, batch.label_values, *value_loss_, sums.document_loss());
    if (predictions.defined()) copy(logit, predictions);
    return;
  }
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
  if (value_loss_) {
    value_loss(dlogits, batch.label_values, *value_loss_, sums.document_loss());
    value_loss_gradient(dlogits, batch.label_values, *value_loss_, scale);
  } else {
    const Tensor log_sum_exp = add_loss(ctx, dlogits, batch.labels, sums.document_loss());
    cross_entropy_gradient(dlogits, batch.labels, 0, dlogits.dim(1), log_sum_exp, scale);
  }
  const Tensor dpooled = ctx.arena.allocate(hidden_.shape(), hidden_.dtype());
  classifier_.backward(ctx, dlogits, dpooled);
  const Dropout drop = dropout(ctx, batch);
  if (drop.active()) dropout_backward(dpooled, drop, dpooled);
  pool_backward(ctx, dpooled);
  const Tensor dfirst = ctx.arena.allocate(hidden_.shape(), hidden_.dtype());
  pooler_.backward(ctx, dpooled, dfirst);
  chosen_rows_backward(ctx, dfirst, first_rows(batch), dhidden);
}

}  // namespace tessera
