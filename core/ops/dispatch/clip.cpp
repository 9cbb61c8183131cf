#include "core/ops/clip.h"

#include <cmath>

#include "core/error.h"
#include "core/ops/dispatch/checks.h"
#include "core/ops/dispatch/dispatch.h"

namespace tessera {

void clip_scale(int64_t step, double max_norm, int64_t max_skipped_steps, const Tensor& squares,
                const Tensor& losses, const StepRecord& record, Tensor grad_scale) {
  constexpr const char* kOp = "clip_scale";
  const OpRange range(kOp);
  require(std::isfinite(max_norm) && max_norm >= 0.0,
          "{}: max_norm must be finite and at least 0, but is {}", kOp, max_norm);
  require(max_skipped_steps >= 0, "{}: max_skipped_steps must not be negative, but is {}", kOp,
          max_skipped_steps);
  require_shape(squares, {1}, kOp, "squares");
  require_dtype(squares, DType::f64, kOp, "squares");
  require_dtype(losses, DType::f64, kOp, "losses");
  require_shape(losses, {losses.numel()}, kOp, "losses");
  require_shape(record.values, {StepRecord::kFirstLoss + losses.numel()}, kOp, "record");
  require_dtype(record.values, DType::f64, kOp, "record");
  require_shape(grad_scale, {1}, kOp, "grad_scale");
  require_dtype(grad_scale, DType::f32, kOp, "grad_scale");
  require_disjoint(record.values, "record", squares, "squares", kOp);
  require_disjoint(record.values, "record", losses, "losses", kOp);
  require_disjoint(grad_scale, "grad_scale", squares, "squares", kOp);
  require_disjoint(grad_scale, "grad_scale", losses, "losses", kOp);
  require_disjoint(grad_scale, "grad_scale", record.values, "record", kOp);
  const Device device = common_device(kOp, squares, losses, record.values, grad_scale);
  dispatch<cpu::clip_scale, cuda::clip_scale, meta::clip_scale>(
      device, step, max_norm, max_skipped_steps, squares, losses, record, grad_scale);
}

}  // namespace tessera
