#pragma once

#include <cstddef>
#include <deque>

#include "parallel/step_context.h"

namespace tessera {

/// The state that a layer keeps from a forward pass for its backward pass, one for each micro-batch
/// in flight (StepContext::slot). References stay valid as long as this object.
template <typename State>
class InFlight {
 public:
  State& at(const StepContext& ctx) {
    const auto slot = static_cast<size_t>(ctx.slot);
    while (slots_.size() <= slot) slots_.emplace_back();
    return slots_[slot];
  }
  /// After a forward pass with this slot.
  const State& at(const StepContext& ctx) const { return slots_.at(static_cast<size_t>(ctx.slot)); }

 private:
  std::deque<State> slots_ = std::deque<State>(1);
};

}  // namespace tessera
