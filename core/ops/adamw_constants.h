#pragma once

#include <cmath>

#include "core/ops/adamw.h"

namespace tessera {

/// The coefficients of a step, computed in double once:
///
///     g = grad × grad_scale,  m += one_minus_beta1 (g − m),  v = beta2 v + one_minus_beta2 g²,
///     weight = keep × weight − step_size × m / (√v × root_scale + eps)
struct AdamWConstants {
  explicit AdamWConstants(const AdamW& s)
      : keep(static_cast<float>(1.0 - double{s.lr} * double{s.weight_decay})),
        one_minus_beta1(static_cast<float>(1.0 - double{s.beta1})),
        beta2(s.beta2),
        one_minus_beta2(static_cast<float>(1.0 - double{s.beta2})),
        eps(s.eps) {
    const auto step = static_cast<double>(s.step);
    const double correction1 = 1.0 - std::pow(double{s.beta1}, step);
    const double correction2 = 1.0 - std::pow(double{s.beta2}, step);
    step_size = static_cast<float>(double{s.lr} / correction1);
    root_scale = static_cast<float>(1.0 / std::sqrt(correction2));
  }

  float keep;  ///< factor of the weight: 1 − lr × weight_decay
  float one_minus_beta1, beta2, one_minus_beta2;
  float eps;
  float step_size;   ///< lr / (1 − beta1^step)
  float root_scale;  ///< 1 / sqrt(1 − beta2^step)
};

}  // namespace tessera
