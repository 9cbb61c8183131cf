#include "launch/train/optimizer.h"

#include "core/ops/adamw.h"

namespace tessera {

Optimizer::Optimizer(const OptimizerSection& settings, ParameterStore& store)
    : settings_(settings) {
  for (const FlatRange& range : store.ranges_by([](const Parameter& p) { return p.decay; })) {
    const auto part = [&](const Tensor& flat) {
      return flat.slice(range.elements.begin, range.elements.end);
    };
    updates_.push_back({part(store.flat_grads()), part(store.flat_exp_avg()),
                        part(store.flat_exp_avg_sq()), part(store.flat_masters()),
                        part(store.flat_values()), range.property});
  }
}

void Optimizer::step(int64_t step, double lr, const Tensor& grad_scale) {
  AdamW adamw;
  adamw.lr = static_cast<float>(lr);
  adamw.beta1 = static_cast<float>(settings_.betas[0]);
  adamw.beta2 = static_cast<float>(settings_.betas[1]);
  adamw.eps = static_cast<float>(settings_.eps);
  adamw.step = step + 1;
  for (const Update& update : updates_) {
    adamw.weight_decay = update.decay ? static_cast<float>(settings_.weight_decay) : 0.0f;
    adamw_step(adamw, grad_scale, update.grad, update.exp_avg, update.exp_avg_sq, update.master,
               update.value);
  }
}

}  // namespace tessera
