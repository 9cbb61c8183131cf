#pragma once

#include <cmath>

#include "core/ops/lion.h"

namespace tessera {

/// The coefficients of a step, computed in double once.
struct LionConstants {
  explicit LionConstants(const Lion& s)
      : lr(s.lr),
        keep(static_cast<float>(1.0 - double{s.lr} * double{s.weight_decay})),
        one_minus_beta1(static_cast<float>(1.0 - double{s.beta1})),
        one_minus_beta2(static_cast<float>(1.0 - double{s.beta2})) {}

  float lr;
  float keep;  ///< factor of the weight: 1 − lr × weight_decay
  float one_minus_beta1, one_minus_beta2;
};

}  // namespace tessera
