#include "core/ops/clip.h"

#include <cmath>

#include "core/error.h"
#include "core/ops/dispatch/checks.h"
#include "core/ops/dispatch/dispatch.h"

namespace tessera {
namespace {

constexpr const char* kClipScale = "clip_scale";

void check_rule(const ClipRule& rule) {
  require(std::isfinite(rule.max_norm) && rule.max_norm >= 0.0,
          "{}: max_norm must be finite and at least 0, but is {}", kClipScale, rule.max_norm);
  require(rule.max_skipped_steps >= 0, "{}: max_skipped_steps must not be negative, but is {}",
          kClipScale, rule.max_skipped_steps);
  require(
      rule.spike_factor == 0.0 || (std::isfinite(rule.spike_factor) && rule.spike_factor >= 1.0),
      "{}: spike_factor must be 0, or finite and at least 1, but is {}", kClipScale,
      rule.spike_factor);
}

void check_history(const ClipRule& rule, const NormHistory& history) {
  require(history.values.defined() == (rule.spike_factor > 0.0),
          "{}: a history of norms is needed exactly if there is a spike_factor, which is {}",
          kClipScale, rule.spike_factor);
  if (!history.values.defined()) return;
  require_dtype(history.values, DType::f64, kClipScale, "history");
  require_shape(history.values, {history.values.numel()}, kClipScale, "history");
  require(history.values.numel() >= 2, "{}: history must have room for a norm, but is {}",
          kClipScale, describe(history.values));
}

}  // namespace

void clip_scale(int64_t step, const ClipRule& rule, const Tensor& squares, const Tensor& losses,
                const NormHistory& history, const StepRecord& record, Tensor grad_scale) {
  const OpRange range(kClipScale);
  check_rule(rule);
  check_history(rule, history);
  require_shape(squares, {1}, kClipScale, "squares");
  require_dtype(squares, DType::f64, kClipScale, "squares");
  require_dtype(losses, DType::f64, kClipScale, "losses");
  require_shape(losses, {losses.numel()}, kClipScale, "losses");
  require_shape(record.values, {StepRecord::kFirstLoss + losses.numel()}, kClipScale, "record");
  require_dtype(record.values, DType::f64, kClipScale, "record");
  require_shape(grad_scale, {1}, kClipScale, "grad_scale");
  require_dtype(grad_scale, DType::f32, kClipScale, "grad_scale");
  require_disjoint(record.values, "record", squares, "squares", kClipScale);
  require_disjoint(record.values, "record", losses, "losses", kClipScale);
  require_disjoint(grad_scale, "grad_scale", squares, "squares", kClipScale);
  require_disjoint(grad_scale, "grad_scale", losses, "losses", kClipScale);
  require_disjoint(grad_scale, "grad_scale", record.values, "record", kClipScale);
  if (history.values.defined()) {
    require_disjoint(history.values, "history", record.values, "record", kClipScale);
  }
  const Device device =
      common_device(kClipScale, squares, losses, history.values, record.values, grad_scale);
  dispatch<cpu::clip_scale, cuda::clip_scale, meta::clip_scale>(device, step, rule, squares, losses,
                                                                history, record, grad_scale);
}

}  // namespace tessera
