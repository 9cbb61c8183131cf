#include "core/ops/clip.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/ops/device_ops.h"

namespace tessera::cpu {
namespace {

/// 0 unless the history is full.
double median_of(const NormHistory& history) {
  const auto values = history.values.span<double>();
  std::vector<double> norms(values.begin() + 1, values.end());
  if (values[0] < static_cast<double>(norms.size())) return 0.0;
  const auto middle = norms.begin() + (std::ssize(norms) - 1) / 2;
  std::ranges::nth_element(norms, middle);
  return *middle;
}

void add_to(const NormHistory& history, double norm) {
  const auto values = history.values.span<double>();
  const auto added = static_cast<size_t>(values[0]);
  values[1 + added % (values.size() - 1)] = norm;
  values[0] += 1.0;
}

}  // namespace

void clip_scale(int64_t step, const ClipRule& rule, const Tensor& squares, const Tensor& losses,
                const NormHistory& history, const StepRecord& record, Tensor grad_scale) {
  const auto values = record.values.span<double>();
  double& skipped_steps = values[StepRecord::kSkippedSteps];
  if (skipped_steps > static_cast<double>(rule.max_skipped_steps)) return;
  float& scale = grad_scale.data<float>()[0];
  const bool seeks_spikes = rule.spike_factor > 0.0;
  const double norm = std::sqrt(squares.data<double>()[0]);
  const double median = seeks_spikes ? median_of(history) : 0.0;
  values[StepRecord::kStep] = static_cast<double>(step);
  values[StepRecord::kNorm] = norm;
  values[StepRecord::kMedian] = median;
  std::ranges::copy(losses.span<double>(), record.losses().data<double>());
  const bool finite =
      std::isfinite(norm) &&
      std::ranges::all_of(losses.span<double>(), [](double x) { return std::isfinite(x); });
  if (!finite || (median > 0.0 && norm > rule.spike_factor * median)) {
    skipped_steps += 1.0;
    values[StepRecord::kLastSkippedStep] = static_cast<double>(step);
    values[StepRecord::kLastSkippedNorm] = norm;
    values[StepRecord::kLastSkippedMedian] = median;
    scale = std::numeric_limits<float>::quiet_NaN();
  } else {
    scale = rule.max_norm > 0.0 && norm > rule.max_norm ? static_cast<float>(rule.max_norm / norm)
                                                        : 1.0f;
    if (seeks_spikes) add_to(history, norm);
  }
}

}  // namespace tessera::cpu
