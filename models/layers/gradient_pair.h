#pragma once

#include "core/accumulate.h"
#include "core/ops/elementwise.h"
#include "core/parameters/parameter.h"
#include "parallel/step_context.h"

namespace tessera {

/// The gradients of two parameters that one op computes, and nothing else touches.
struct GradientPair {
  Tensor first, second;  ///< `second` is undefined if there is none
  Accumulate accumulate;
};

/// A frozen parameter gets memory in ctx.arena instead, which nobody reads. `second` may be null.
inline GradientPair next_gradients(const StepContext& ctx, Parameter& first, Parameter* second) {
  const auto gradient = [&](const Parameter& parameter) {
    if (!parameter.frozen) return parameter.grad();
    return ctx.arena.allocate(parameter.local_shape, DType::f32);
  };
  // Both gradients are valid or neither is, unless one is frozen.
  const bool none = first.frozen && (second == nullptr || second->frozen);
  Accumulate accumulate = first.next_accumulate();
  if (second != nullptr) {
    const Accumulate of_second = second->next_accumulate();
    if (first.frozen) accumulate = of_second;
  }
  GradientPair pair{gradient(first), second != nullptr ? gradient(*second) : Tensor(),
                    none ? Accumulate::no : accumulate};
  // Adding to memory that was never written is undefined.
  if (pair.accumulate == Accumulate::yes) {
    if (first.frozen) fill(pair.first, 0.0);
    if (second != nullptr && second->frozen) fill(pair.second, 0.0);
  }
  return pair;
}

}  // namespace tessera
