#include "core/ops/clip.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/ops/device_ops.h"

namespace tessera::cpu {

void clip_scale(int64_t step, double max_norm, int64_t max_skipped_steps, const Tensor& squares,
                const Tensor& losses, const StepRecord& record, Tensor grad_scale) {
  double& skipped_steps = record.skipped_steps().data<double>()[0];
  if (skipped_steps > static_cast<double>(max_skipped_steps)) return;
  float& scale = grad_scale.data<float>()[0];
  const double norm = std::sqrt(squares.data<double>()[0]);
  record.step().data<double>()[0] = static_cast<double>(step);
  record.norm().data<double>()[0] = norm;
  std::ranges::copy(losses.span<double>(), record.losses().data<double>());
  const bool finite =
      std::isfinite(norm) &&
      std::ranges::all_of(losses.span<double>(), [](double x) { return std::isfinite(x); });
  if (!finite) {
    skipped_steps += 1.0;
    record.last_skipped_step().data<double>()[0] = static_cast<double>(step);
    scale = std::numeric_limits<float>::quiet_NaN();
  } else {
    scale = max_norm > 0.0 && norm > max_norm ? static_cast<float>(max_norm / norm) : 1.0f;
  }
}

}  // namespace tessera::cpu
