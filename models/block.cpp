#include "models/block.h"

#include "core/trace.h"

namespace tessera {

Block::Block(ParameterStore& store, const std::string& name, const ModelConfig& config, int layer,
             Gelu gelu, Communicator& tp)
    : name_(name),
      backward_name_(name + " backward"),
      attention_residual_(store, name + ".attention_norm", config, layer,
                          RandomPurpose::attention_output_dropout),
      attention_(store, name + ".attention", config, layer, tp),
      mlp_residual_(store, name + ".mlp_norm", config, layer, RandomPurpose::mlp_dropout),
      mlp_(store, name + ".mlp", config, gelu, tp) {}

Tensor Block::mlp_half(const StepContext& ctx, const Tensor& attended) {
  const Tensor branch = mlp_.forward(ctx, mlp_residual_.input(ctx, attended));
  return mlp_residual_.output(ctx, branch, mlp_.output_bias(), attended);
}

Tensor Block::forward(const StepContext& ctx, const Tensor& x, const Visibility& visibility) {
  const TraceRange range(name_.c_str());
  const Tensor branch = attention_.forward(ctx, attention_residual_.input(ctx, x), visibility);
  return mlp_half(ctx, attention_residual_.output(ctx, branch, attention_.output_bias(), x));
}

void Block::backward(const StepContext& ctx, Tensor gradient) {
  const TraceRange range(backward_name_.c_str());
  mlp_residual_.backward(ctx, mlp_, gradient);
  attention_residual_.backward(ctx, attention_, gradient);
}

Tensor Block::extend(const StepContext& ctx, const Tensor& x, KeyValueCache& cache,
                     const Visibility& visibility) {
  const Tensor branch =
      attention_.extend(ctx, attention_residual_.input(ctx, x), cache, visibility);
  return mlp_half(ctx, attention_residual_.output(ctx, branch, attention_.output_bias(), x));
}

}  // namespace tessera
