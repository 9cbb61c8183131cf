#include "models/layers/block.h"

#include "core/error.h"
#include "core/trace/trace.h"
#include "models/architecture.h"

namespace tessera {

Block::Block(ParameterStore& store, const std::string& name, const ModelConfig& config, int layer,
             bool has_cross_attention, Communicator& tp)
    : tp_(tp),
      name_(name),
      backward_name_(name + " backward"),
      attention_residual_(
          store, name + ".attention_norm", config, layer, RandomPurpose::attention_output_dropout,
          layer > 0 || !config.pre_norm() || architecture_of(config.kind).first_norm),
      attention_(store, name + ".attention", config, layer, tp),
      cross_(has_cross_attention
                 ? std::optional<Cross>(std::in_place, store, name, config, layer, tp)
                 : std::nullopt),
      mlp_residual_(store, name + ".mlp_norm", config, layer, RandomPurpose::mlp_dropout),
      mlp_(store, name + ".mlp", config, layer, tp) {}

Block::Cross::Cross(ParameterStore& store, const std::string& name, const ModelConfig& config,
                    int layer, Communicator& tp)
    : residual(store, name + ".cross_attention_norm", config, layer,
               RandomPurpose::cross_attention_output_dropout),
      attention(store, name + ".cross_attention", config, layer, tp) {}

Tensor Block::finish(const StepContext& ctx, const Tensor& branch, const Tensor& x,
                     const Visibility& visibility) {
  Residual& next = cross_ ? cross_->residual : mlp_residual_;
  auto [sum, input] =
      attention_residual_.output_and_next_input(next, ctx, branch, attention_.output_bias(), x);
  if (cross_) {
    CrossAttention& cross = cross_->attention;
    require(visibility.source != nullptr, "cross-attention needs the output of an encoder");
    const Tensor crossed = cross.forward(ctx, input, *visibility.source);
    const auto after =
        next.output_and_next_input(mlp_residual_, ctx, crossed, cross.output_bias(), sum);
    sum = after.y;
    input = after.input;
  }
  return mlp_residual_.output(ctx, mlp_.forward(ctx, input), mlp_.output_bias(), sum);
}

Tensor Block::forward(const StepContext& ctx, const Tensor& x, const Visibility& visibility,
                      const OutputRows* outputs) {
  require(!cross_ || outputs == nullptr, "a block with cross-attention needs all rows");
  const TraceRange range(name_.c_str());
  const Tensor input = attention_residual_.input(ctx, x);
  const Tensor branch = attention_.forward(ctx, input, visibility, outputs);
  if (outputs == nullptr) return finish(ctx, branch, x, visibility);
  return finish(outputs->context(ctx), branch, attention_residual_.choose(ctx, x, *outputs, tp_),
                visibility);
}

void Block::backward(const StepContext& ctx, ResidualGradient& gradient) {
  const TraceRange range(backward_name_.c_str());
  mlp_residual_.backward(ctx, mlp_, gradient);
  if (cross_) cross_->residual.backward(ctx, cross_->attention, gradient);
  attention_residual_.backward(ctx, attention_, gradient);
}

void Block::backward(const StepContext& ctx, const OutputRows& outputs,
                     ResidualGradient& of_outputs, ResidualGradient& gradient) {
  const TraceRange range(backward_name_.c_str());
  mlp_residual_.backward(outputs.context(ctx), mlp_, of_outputs);
  attention_residual_.backward(ctx, attention_, outputs, of_outputs, gradient, tp_);
}

Tensor Block::extend(const StepContext& ctx, const Tensor& x, KeyValueCache& cache,
                     const Visibility& visibility) {
  return finish(ctx, attention_.extend(ctx, attention_residual_.input(ctx, x), cache, visibility),
                x, visibility);
}

}  // namespace tessera
