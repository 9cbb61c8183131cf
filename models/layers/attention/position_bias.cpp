#include "models/layers/attention/position_bias.h"

#include "core/trace/trace.h"
#include "models/layers/attention/local_heads.h"

namespace tessera {

PositionBias::PositionBias(ParameterStore& store, const std::string& name,
                           const ModelConfig& config, bool causal, Communicator& tp)
    : positions_(config.positions),
      total_heads_(config.num_heads),
      seq_length_(config.seq_length),
      heads_(local_heads(config, tp.size(), tp.rank())),
      buckets_{config.relative_buckets, config.relative_max_distance, !causal} {
  if (positions_ != Positions::relative) return;
  ParameterSpec spec{name + "position_bias.weight",
                     {buckets_.count, total_heads_},
                     {1, heads_},
                     Init::normal(static_cast<float>(config.init_stddev)),
                     /*decay=*/true};
  spec.role = WidthRole::input;
  spec.slot_extent = local_heads(config, tp.size(), 0).size();
  weights_ = &store.declare(spec);
}

Tensor PositionBias::table(const StepContext& ctx) const {
  if (positions_ != Positions::alibi && positions_ != Positions::relative) return {};
  const TraceRange range("position bias");
  const Tensor table = ctx.arena.allocate({heads_.size(), 2 * seq_length_ - 1}, DType::f32);
  if (is_learned()) {
    relative_bias(weights_->value(), buckets_, table);
  } else {
    alibi_bias(heads_.begin, total_heads_, table);
  }
  return table;
}

void PositionBias::backward(const StepContext& ctx, const Tensor& dtable) {
  const TraceRange range("position bias backward");
  if (!weights_->frozen) relative_bias_backward(dtable, buckets_, weights_->grad_to_add_to());
  ctx.gradient_is_final(*weights_);
}

}  // namespace tessera
