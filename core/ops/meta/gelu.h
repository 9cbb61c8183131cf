#pragma once

#include "core/ops/gelu.h"

namespace tessera::meta {

/// FLOPs per element of gelu(x) and of dy × gelu'(x), as core/ops/gelu.h and its derivative state
/// them.
constexpr double gelu_flops(Gelu kind) { return kind == Gelu::tanh ? 9.0 : 5.0; }
constexpr double gelu_backward_flops(Gelu kind) { return kind == Gelu::tanh ? 16.0 : 11.0; }

}  // namespace tessera::meta
