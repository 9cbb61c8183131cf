#include "launch/train/optimizer.h"

#include "core/checked.h"
#include "core/ops/adamw.h"

namespace tessera {
namespace {

/// Of the values after `steps_done` steps.
StochasticRounding at_step(StochasticRounding rounding, int64_t steps_done) {
  rounding.key.step = narrow<uint32_t>(steps_done);
  return rounding;
}

}  // namespace

Optimizer::Optimizer(const OptimizerSection& settings, ParameterStore& store, uint64_t seed)
    : settings_(settings) {
  const auto add = [&](Range elements, bool decay) -> Update& {
    const auto part = [&](const Tensor& flat) { return flat.slice(elements.begin, elements.end); };
    return updates_.emplace_back(Update{part(store.flat_grads()), part(store.flat_exp_avg()),
                                        part(store.flat_exp_avg_sq()), part(store.flat_masters()),
                                        part(store.flat_values()), decay});
  };
  if (!settings.stochastic_rounding) {
    for (const FlatRange& range : store.ranges_by([](const Parameter& p) { return p.decay; })) {
      add(range.elements, range.property);
    }
    return;
  }
  // Gaps and padding are left out: they stay zeros.
  for (const Parameter& p : store.parameters()) {
    Update& update = add({p.offset, p.offset + p.real_shape().numel()}, p.decay);
    update.rounding = {
        {seed_for(seed, p.name), RandomPurpose::stochastic_rounding, 0, 0}, p.global_index(), 0};
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
    if (update.rounding) adamw.rounding = at_step(*update.rounding, step + 1);
    adamw_step(adamw, grad_scale, update.grad, update.exp_avg, update.exp_avg_sq, update.master,
               update.value);
  }
}

void Optimizer::round_values(int64_t steps_done) {
  for (const Update& update : updates_) {
    if (!update.rounding) continue;
    round_stochastically(update.master, at_step(*update.rounding, steps_done), update.value);
  }
}

}  // namespace tessera
