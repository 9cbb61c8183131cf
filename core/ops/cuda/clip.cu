#include <cfloat>

#include "core/cuda/launch.h"
#include "core/ops/clip.h"
#include "core/ops/device_ops.h"

namespace tessera::cuda {
namespace {

struct History {
  double* added;
  double* norms;
  int size;
};

__device__ bool is_finite(double x) { return fabs(x) <= DBL_MAX; }

/// The lower median, by counting how many norms come before each; 0 unless the history is full. All
/// threads of the block must call it; valid in all of them. Afterwards, one may change the history.
__device__ double median_of(const History& history) {
  __shared__ double median;
  const bool is_full = *history.added >= history.size;
  for (int i = static_cast<int>(threadIdx.x); is_full && i < history.size; i += kBlockThreads) {
    const double norm = history.norms[i];
    int before = 0;
    for (int j = 0; j < history.size; ++j) {
      const double other = history.norms[j];
      before += other < norm || (other == norm && j < i) ? 1 : 0;
    }
    if (before == (history.size - 1) / 2) median = norm;
  }
  __syncthreads();
  return is_full ? median : 0.0;
}

// A few numbers, which would take far longer to the host and back. One thread decides; the others
// help only to find the median.
__global__ void clip_scale_kernel(double step, ClipRule rule, const double* squares,
                                  const double* losses, int64_t loss_count, History history,
                                  double* record, float* grad_scale) {
  const double median = history.size > 0 ? median_of(history) : 0.0;
  if (threadIdx.x != 0) return;
  if (record[StepRecord::kSkippedSteps] > static_cast<double>(rule.max_skipped_steps)) {
    return;  // an earlier step failed
  }
  const double norm = sqrt(*squares);
  bool finite = is_finite(norm);
  record[StepRecord::kStep] = step;
  record[StepRecord::kNorm] = norm;
  record[StepRecord::kMedian] = median;
  for (int64_t i = 0; i < loss_count; ++i) {
    record[StepRecord::kFirstLoss + i] = losses[i];
    finite = finite && is_finite(losses[i]);
  }
  if (!finite || (median > 0.0 && norm > rule.spike_factor * median)) {
    record[StepRecord::kSkippedSteps] += 1.0;
    record[StepRecord::kLastSkippedStep] = step;
    record[StepRecord::kLastSkippedNorm] = norm;
    record[StepRecord::kLastSkippedMedian] = median;
    *grad_scale = __uint_as_float(0x7fc00000u);
    return;
  }
  *grad_scale =
      rule.max_norm > 0.0 && norm > rule.max_norm ? static_cast<float>(rule.max_norm / norm) : 1.0f;
  if (history.size == 0) return;
  history.norms[static_cast<int64_t>(*history.added) % history.size] = norm;
  *history.added += 1.0;
}

History history_of(const NormHistory& norms, const ClipRule& rule) {
  if (rule.spike_factor == 0.0) return {nullptr, nullptr, 0};
  auto* values = norms.values.data<double>();
  return {values, values + 1, static_cast<int>(norms.values.numel()) - 1};
}

}  // namespace

void clip_scale(int64_t step, const ClipRule& rule, const Tensor& squares, const Tensor& losses,
                const NormHistory& history, const StepRecord& record, Tensor grad_scale) {
  const History norms = history_of(history, rule);
  launch("clip_scale", {dim3(1), dim3(norms.size > 0 ? kBlockThreads : 1)}, clip_scale_kernel,
         static_cast<double>(step), rule, squares.data<double>(), losses.data<double>(),
         losses.numel(), norms, record.values.data<double>(), grad_scale.data<float>());
}

}  // namespace tessera::cuda
