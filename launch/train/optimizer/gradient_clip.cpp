#include "launch/train/optimizer/gradient_clip.h"

#include <algorithm>

#include "core/ops/elementwise.h"

namespace tessera {
namespace {

constexpr int64_t kRecorded = StepRecord::kFirstLoss + LossSums::kCount;

OwnedTensor make_norms(const ClipRule& rule, int64_t spike_window, Device device) {
  if (rule.spike_factor == 0.0) return {};
  return OwnedTensor({1 + spike_window}, DType::f64, device);
}

}  // namespace

GradientClip::GradientClip(const ParameterStore& store, const ParallelGroups& groups,
                           const ClipRule& rule, int64_t spike_window)
    : norm_(store, groups),
      rule_(rule),
      squares_({1}, DType::f64, store.device()),
      scale_({1}, DType::f32, store.device()),
      norms_(make_norms(rule, spike_window, store.device())),
      record_({kRecorded}, DType::f64, store.device()),
      host_({kRecorded}, DType::f64, kCpu,
            store.device().is_cuda() ? MemoryKind::pinned : MemoryKind::ordinary),
      host_record_{host_.tensor} {
  reset();
}

void GradientClip::reset(const ClipState& before) {
  fill(scale_.tensor, 1.0);
  fill(record_.tensor, 0.0);
  fill(StepRecord{record_.tensor}.skipped_steps(), static_cast<double>(before.skipped_steps));
  const Tensor& norms = norms_.tensor;
  if (!norms.defined()) return;
  fill(norms, 0.0);
  const int64_t known = std::min(std::ssize(before.norms), norms.numel() - 1);
  fill(norms.slice(0, 1), static_cast<double>(known));
  for (int64_t i = 0; i < known; ++i) {
    const double norm = before.norms[before.norms.size() - static_cast<size_t>(known - i)];
    fill(norms.slice(1 + i, 2 + i), norm);
  }
}

ClipState GradientClip::state() {
  ClipState state;
  state.skipped_steps = static_cast<int64_t>(record().skipped_steps().span<double>()[0]);
  if (!norms_.tensor.defined()) return state;
  const OwnedTensor host(norms_.tensor.shape(), DType::f64);
  copy(norms_.tensor, host.tensor);
  const auto values = host.tensor.span<double>();
  const int64_t window = std::ssize(values) - 1, added = static_cast<int64_t>(values[0]);
  for (int64_t i = std::max<int64_t>(added - window, 0); i < added; ++i) {
    state.norms.push_back(values[static_cast<size_t>(1 + i % window)]);
  }
  return state;
}

const Tensor& GradientClip::scale(int64_t step, const LossSums& sums) {
  norm_.sum_squares(squares_.tensor);
  clip_scale(step, rule_, squares_.tensor, sums.values, {norms_.tensor}, {record_.tensor},
             scale_.tensor);
  return scale_.tensor;
}

const StepRecord& GradientClip::record() {
  copy(record_.tensor, host_.tensor);
  return host_record_;
}

}  // namespace tessera
