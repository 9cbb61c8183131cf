#include "launch/train/optimizer/gradient_clip.h"

#include "core/ops/elementwise.h"

namespace tessera {
namespace {

constexpr int64_t kRecorded = StepRecord::kFirstLoss + LossSums::kCount;

}  // namespace

GradientClip::GradientClip(const ParameterStore& store, Communicator& tp, double max_norm,
                           int64_t max_skipped_steps, Communicator* dp)
    : norm_(store, tp, dp),
      max_norm_(max_norm),
      max_skipped_steps_(max_skipped_steps),
      squares_({1}, DType::f64, store.device()),
      scale_({1}, DType::f32, store.device()),
      record_({kRecorded}, DType::f64, store.device()),
      host_({kRecorded}, DType::f64, kCpu,
            store.device().is_cuda() ? MemoryKind::pinned : MemoryKind::ordinary),
      host_record_{host_.tensor} {
  reset();
}

void GradientClip::reset(int64_t skipped_steps) {
  fill(scale_.tensor, 1.0);
  fill(record_.tensor, 0.0);
  fill(StepRecord{record_.tensor}.skipped_steps(), static_cast<double>(skipped_steps));
}

const Tensor& GradientClip::scale(int64_t step, const LossSums& sums) {
  norm_.sum_squares(squares_.tensor);
  clip_scale(step, max_norm_, max_skipped_steps_, squares_.tensor, sums.values, {record_.tensor},
             scale_.tensor);
  return scale_.tensor;
}

const StepRecord& GradientClip::record() {
  copy(record_.tensor, host_.tensor);
  return host_record_;
}

}  // namespace tessera
