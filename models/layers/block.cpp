#include "models/layers/block.h"

#include "core/trace/trace.h"
#include "models/architecture.h"

namespace tessera {

Block::Block(ParameterStore& store, const std::string& name, const ModelConfig& config, int layer,
             Communicator& tp)
    : name_(name),
      backward_name_(name + " backward"),
      attention_residual_(
          store, name + ".attention_norm", config, layer, RandomPurpose::attention_output_dropout,
          layer > 0 || !config.pre_norm() || architecture_of(config.kind).first_norm),
      attention_(store, name + ".attention", config, layer, tp),
      mlp_residual_(store, name + ".mlp_norm", config, layer, RandomPurpose::mlp_dropout),
      mlp_(store, name + ".mlp", config, tp) {}

Tensor Block::finish(const StepContext& ctx, const Tensor& branch, const Tensor& x) {
  const auto [attended, input] = attention_residual_.output_and_next_input(
      mlp_residual_, ctx, branch, attention_.output_bias(), x);
  return mlp_residual_.output(ctx, mlp_.forward(ctx, input), mlp_.output_bias(), attended);
}

Tensor Block::forward(const StepContext& ctx, const Tensor& x, const Visibility& visibility) {
  const TraceRange range(name_.c_str());
  return finish(ctx, attention_.forward(ctx, attention_residual_.input(ctx, x), visibility), x);
}

void Block::backward(const StepContext& ctx, ResidualGradient& gradient) {
  const TraceRange range(backward_name_.c_str());
  mlp_residual_.backward(ctx, mlp_, gradient);
  attention_residual_.backward(ctx, attention_, gradient);
}

Tensor Block::extend(const StepContext& ctx, const Tensor& x, KeyValueCache& cache,
                     const Visibility& visibility) {
  return finish(ctx, attention_.extend(ctx, attention_residual_.input(ctx, x), cache, visibility),
                x);
}

}  // namespace tessera
