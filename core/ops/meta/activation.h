#pragma once

#include "core/ops/activation.h"

namespace tessera::meta {

/// FLOPs per element of f(x) and of dy × f'(x), as core/ops/activation.h and its derivative state
/// them.
constexpr double activation_flops(Activation f) {
  switch (f) {
    case Activation::gelu:
      return 5.0;
    case Activation::gelu_tanh:
      return 9.0;
    case Activation::silu:
      return 4.0;
    case Activation::relu:
      return 1.0;
  }
  return 0.0;
}
constexpr double activation_backward_flops(Activation f) {
  switch (f) {
    case Activation::gelu:
      return 11.0;
    case Activation::gelu_tanh:
      return 16.0;
    case Activation::silu:
      return 8.0;
    case Activation::relu:
      return 2.0;
  }
  return 0.0;
}

}  // namespace tessera::meta
