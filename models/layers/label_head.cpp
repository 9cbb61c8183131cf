#include "models/layers/label_head.h"

#include "core/arena.h"
#include "core/ops/activation.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/dropout.h"
#include "core/ops/elementwise.h"
#include "core/ops/rows.h"
#include "core/ops/tanh.h"
#include "core/trace/trace.h"
#include "models/architecture.h"
#include "models/layers/init.h"
#include "models/layers/pooling.h"
#include "parallel/communicators/traffic.h"
#include "parallel/layers/tensor_regions.h"

namespace tessera {
namespace {

LinearSpec linear(const ModelConfig& config, const std::string& name, int64_t out_features,
                  bool bias) {
  return {name, config.hidden_size, out_features, 1, bias, static_cast<float>(config.init_stddev)};
}

LinearSpec last_layer(const ModelConfig& config, const LabelHeadSpec& head) {
  const bool bias = config.linear_bias() || architecture_of(config.kind).head_bias;
  LinearSpec spec = linear(config, head.name, head.num_labels, bias);
  spec.role = WidthRole::output;
  return spec;
}

bool pools_with(const ModelConfig& config, Pooler pooler) {
  return architecture_of(config.kind).pooler == pooler;
}

std::optional<ReplicatedLinear> make_pooler(ParameterStore& store, const ModelConfig& config,
                                            LabelsOf labels_of) {
  if (pools_with(config, Pooler::none)) return std::nullopt;
  if (labels_of == LabelsOf::tokens && pools_with(config, Pooler::tanh)) return std::nullopt;
  return ReplicatedLinear(store, hidden_linear(config, linear(config, "pooler", config.hidden_size,
                                                              config.linear_bias())));
}

std::optional<Norm> make_norm(ParameterStore& store, const ModelConfig& config) {
  if (!pools_with(config, Pooler::norm)) return std::nullopt;
  return Norm(store, "pooler.norm", config, /*local_rows=*/false);
}

/// Adds the losses of logits (R, K) to loss_sum; returns log_sum_exp (R) for the gradient. If
/// defined, overwrites `losses` (R) fp32 with the loss of each row.
Tensor add_loss(const StepContext& ctx, const Tensor& logits, const Tensor& labels, Tensor loss_sum,
                Tensor losses = {}) {
  const Shape rows = {logits.dim(0)};
  const Tensor max = ctx.arena.allocate(rows, DType::f32);
  const Tensor sum = ctx.arena.allocate(rows, DType::f32);
  const Tensor label_logit = ctx.arena.allocate(rows, DType::f32);
  cross_entropy_statistics(logits, labels, 0, logits.dim(1), max, sum, label_logit);
  cross_entropy_loss(max, sum, label_logit, labels, /*log_sum_exp=*/max, loss_sum);
  if (losses.defined()) {
    scale(label_logit, -1.0f, label_logit);
    add(max, label_logit, losses);
  }
  return max;
}

}  // namespace

LabelHead::LabelHead(ParameterStore& store, const ModelConfig& config, const LabelHeadSpec& spec,
                     Communicator& tp)
    : spec_(spec),
      tp_(tp),
      pooler_(make_pooler(store, config, spec.labels_of)),
      norm_(make_norm(store, config)),
      classifier_(store, last_layer(config, spec)),
      scale_(static_cast<float>(config.logit_scale())) {}

Tensor LabelHead::rows(const TokenBatch& batch) const {
  return of_tokens() ? batch.target_rows : batch.documents.slice(0, batch.num_documents());
}

const Tensor& LabelHead::labels(const TokenBatch& batch) const {
  return of_tokens() ? batch.targets : batch.labels;
}

Tensor LabelHead::states(const StepContext& ctx, const Tensor& hidden,
                         const TokenBatch& batch) const {
  if (of_tokens()) return chosen_rows(ctx, hidden, batch.target_rows, tp_);
  return pool_documents(ctx, hidden, batch, spec_.pooling, tp_);
}

void LabelHead::states_backward(const StepContext& ctx, const Tensor& dstates,
                                const TokenBatch& batch, Tensor dhidden) const {
  if (of_tokens()) return chosen_rows_backward(ctx, dstates, batch.target_rows, dhidden);
  pool_documents_backward(ctx, dstates, batch, spec_.pooling, dhidden);
}

Tensor LabelHead::loss_sum(const LossSums& sums) const {
  return of_tokens() ? sums.token_loss() : sums.document_loss();
}

Dropout LabelHead::dropout(const StepContext& ctx, const TokenBatch& batch) const {
  if (!ctx.training || spec_.dropout == 0.0) return {};
  const Tensor chosen = rows(batch);
  const Tensor padded_rows = ctx.arena.allocate(chosen.shape(), DType::i32);
  gather_ints(batch.padded_rows, chosen, padded_rows);
  return ctx.dropout(spec_.dropout, RandomPurpose::pooled_dropout, 0, padded_rows);
}

Tensor LabelHead::pool(const StepContext& ctx, const Tensor& states) {
  if (!pooler_) return states;
  const Tensor hidden = pooler_->forward(ctx, states);
  hidden_.at(ctx) = hidden;
  if (!norm_) {
    tanh_forward(hidden, hidden);
    return hidden;
  }
  const Tensor active = ctx.arena.allocate(hidden.shape(), hidden.dtype());
  activation_forward(hidden, Activation::gelu, active);
  return norm_->forward(ctx, active);
}

Tensor LabelHead::pool_backward(const StepContext& ctx, Tensor gradient) {
  if (!pooler_) return gradient;
  if (norm_) {
    norm_->backward(ctx, gradient, {}, gradient);
    activation_backward(gradient, hidden_.at(ctx), Activation::gelu, gradient);
  } else {
    tanh_backward(gradient, hidden_.at(ctx), gradient);
  }
  const Tensor dstates = ctx.arena.allocate(gradient.shape(), gradient.dtype());
  pooler_->backward(ctx, gradient, dstates);
  return dstates;
}

Tensor LabelHead::logits(const StepContext& ctx, const Tensor& hidden, const TokenBatch& batch) {
  const TrafficScope traffic(Traffic::loss);
  Tensor input = pool(ctx, states(ctx, hidden, batch));
  const auto replace = [&](auto&& write) {
    const Tensor next = ctx.arena.allocate(input.shape(), input.dtype());
    write(next);
    input = next;
  };
  const Dropout drop = dropout(ctx, batch);
  if (drop.active()) replace([&](const Tensor& next) { dropout_forward(input, drop, next); });
  if (has_scale()) replace([&](const Tensor& next) { scale(input, scale_, next); });
  return classifier_.forward(ctx, input);
}

void LabelHead::loss(const StepContext& ctx, const Tensor& hidden, const TokenBatch& batch,
                     const LossSums& sums, Tensor predictions, const TargetLosses& losses) {
  const TraceRange range(of_tokens() ? "token head" : "document head");
  const Arena::Scope scope(ctx.arena);
  const Tensor logit = logits(ctx, hidden, batch);
  if (spec_.value_loss) {
    value_loss(logit, batch.label_values, *spec_.value_loss, loss_sum(sums));
    if (predictions.defined()) copy(logit, predictions);
    return;
  }
  add_loss(ctx, logit, labels(batch), loss_sum(sums),
           of_tokens() ? losses.tokens : losses.documents);
  const Tensor likeliest =
      predictions.defined() ? predictions : ctx.arena.allocate({logit.dim(0)}, DType::i32);
  argmax_rows(logit, likeliest);
  count_equal(likeliest, labels(batch),
              of_tokens() ? sums.token_correct() : sums.document_correct());
}

void LabelHead::loss_and_gradient(const StepContext& ctx, const Tensor& hidden,
                                  const TokenBatch& batch, const LossWeights& weights,
                                  const LossSums& sums, Tensor dhidden) {
  const TraceRange range(of_tokens() ? "token head" : "document head");
  const Arena::Scope scope(ctx.arena);
  const Scalar& weight = of_tokens() ? weights.token : weights.document;
  const Tensor dlogits = logits(ctx, hidden, batch);  // overwritten by its gradient
  if (spec_.value_loss) {
    value_loss(dlogits, batch.label_values, *spec_.value_loss, loss_sum(sums));
    value_loss_gradient(dlogits, batch.label_values, *spec_.value_loss, weight);
  } else {
    const Tensor log_sum_exp = add_loss(ctx, dlogits, labels(batch), loss_sum(sums));
    cross_entropy_gradient(dlogits, labels(batch), 0, dlogits.dim(1), log_sum_exp, weight);
  }
  const Tensor dpooled = ctx.arena.allocate({dlogits.dim(0), dhidden.dim(-1)}, dhidden.dtype());
  classifier_.backward(ctx, dlogits, dpooled);
  if (has_scale()) scale(dpooled, scale_, dpooled);
  const Dropout drop = dropout(ctx, batch);
  if (drop.active()) dropout_backward(dpooled, drop, dpooled);
  states_backward(ctx, pool_backward(ctx, dpooled), batch, dhidden);
}

}  // namespace tessera
