#include <cfloat>

#include "core/cuda/launch.h"
#include "core/ops/clip.h"
#include "core/ops/device_ops.h"

namespace tessera::cuda {
namespace {

__device__ bool is_finite(double x) { return fabs(x) <= DBL_MAX; }

// One thread: a few numbers, which would take far longer to the host and back.
__global__ void clip_scale_kernel(double step, double max_norm, double max_skipped_steps,
                                  const double* squares, const double* losses, int64_t loss_count,
                                  double* record, float* grad_scale) {
  if (record[StepRecord::kSkippedSteps] > max_skipped_steps) return;  // an earlier step failed
  const double norm = sqrt(*squares);
  bool finite = is_finite(norm);
  record[StepRecord::kStep] = step;
  record[StepRecord::kNorm] = norm;
  for (int64_t i = 0; i < loss_count; ++i) {
    record[StepRecord::kFirstLoss + i] = losses[i];
    finite = finite && is_finite(losses[i]);
  }
  if (!finite) {
    record[StepRecord::kSkippedSteps] += 1.0;
    record[StepRecord::kLastSkippedStep] = step;
    *grad_scale = __uint_as_float(0x7fc00000u);
  } else {
    *grad_scale = max_norm > 0.0 && norm > max_norm ? static_cast<float>(max_norm / norm) : 1.0f;
  }
}

}  // namespace

void clip_scale(int64_t step, double max_norm, int64_t max_skipped_steps, const Tensor& squares,
                const Tensor& losses, const StepRecord& record, Tensor grad_scale) {
  launch("clip_scale", {dim3(1), dim3(1)}, clip_scale_kernel, static_cast<double>(step), max_norm,
         static_cast<double>(max_skipped_steps), squares.data<double>(), losses.data<double>(),
         losses.numel(), record.values.data<double>(), grad_scale.data<float>());
}

}  // namespace tessera::cuda
