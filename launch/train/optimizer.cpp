#include "launch/train/optimizer.h"

#include "core/ops/adamw.h"

namespace tessera {

Optimizer::Optimizer(const OptimizerSection& settings, ParameterStore& store)
    : settings_(settings) {
  const auto& parameters = store.parameters();
  for (size_t first = 0; first < parameters.size();) {
    size_t last = first + 1;
    while (last < parameters.size() && parameters[last].decay == parameters[first].decay) ++last;
    const int64_t begin = parameters[first].offset;
    const int64_t end = last < parameters.size() ? parameters[last].offset : store.flat_size();
    ranges_.push_back({store.flat_grads().slice(begin, end), store.flat_exp_avg().slice(begin, end),
                       store.flat_exp_avg_sq().slice(begin, end),
                       store.flat_masters().slice(begin, end),
                       store.flat_values().slice(begin, end), parameters[first].decay});
    first = last;
  }
}

void Optimizer::step(int64_t step, double lr, double grad_scale) {
  AdamW adamw;
  adamw.lr = static_cast<float>(lr);
  adamw.beta1 = static_cast<float>(settings_.betas[0]);
  adamw.beta2 = static_cast<float>(settings_.betas[1]);
  adamw.eps = static_cast<float>(settings_.eps);
  adamw.step = step + 1;
  adamw.grad_scale = static_cast<float>(grad_scale);
  for (const FlatRange& range : ranges_) {
    adamw.weight_decay = range.decay ? static_cast<float>(settings_.weight_decay) : 0.0f;
    adamw_step(adamw, range.grad, range.exp_avg, range.exp_avg_sq, range.master, range.value);
  }
}

}  // namespace tessera
