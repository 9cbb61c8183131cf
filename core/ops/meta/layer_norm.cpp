#include "core/cuda/runtime.h"
#include "core/device.h"
#include "core/ops/cuda/workspace_sizes.h"
#include "core/ops/device_ops.h"
#include "core/ops/meta/log_work.h"
#include "core/ops/meta/workspace_log.h"

namespace tessera::meta {
namespace {

/// Per element: the mean 1, the variance 3, normalized 2, weight and bias. RMS: the squares 2,
/// normalized 1.
double norm_flops(const Tensor& x, const Tensor& bias, const Tensor& mean) {
  const double flops = (mean.defined() ? 6.0 : 3.0) + (bias.defined() ? 2.0 : 1.0);
  return flops * elements_of(x);
}

void log_backward_workspace(int64_t columns) {
  constexpr int64_t kMostMultiprocessors = 160;  // of any GPU until 2026
  const WorkspaceLog* log = WorkspaceLog::current();
  if (log == nullptr) return;
  int64_t multiprocessors = kMostMultiprocessors;
  if constexpr (kHasCuda) {
    if (log->has_gpu()) multiprocessors = cuda::multiprocessors();
  }
  log_workspace(cuda::most_norm_scratch(columns, multiprocessors));
}

}  // namespace

void layer_norm_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, float /*eps*/,
                        Tensor y, Tensor mean, Tensor rstd) {
  log_work({.flops = norm_flops(x, bias, mean),
            .bytes_read = bytes_of(x, weight, bias),
            .bytes_written = bytes_of(y, mean, rstd)});
}

void bias_dropout_add_norm(const Tensor& x, const Tensor& bias, const Tensor& residual,
                           const Dropout& dropout, Tensor sum, const Tensor& weight,
                           const Tensor& norm_bias, float /*eps*/, Tensor y, Tensor mean,
                           Tensor rstd) {
  const double flops = 1.0 + (bias.defined() ? 1.0 : 0.0) + (dropout.active() ? 1.0 : 0.0);
  log_work({.flops = flops * elements_of(x) + norm_flops(x, norm_bias, mean),
            .bytes_read = bytes_of(x, bias, residual, weight, norm_bias) +
                          (dropout.active() ? bytes_of(dropout.rows) : 0.0),
            .bytes_written = bytes_of(sum, y, mean, rstd)});
}

// Per element: the normalized x 2, dy × weight and two means of it 4, dx 4, and the gradients of
// weight 2, bias 1, the residual 1 and the addend 1. RMS: one mean less to sum and to subtract.
void layer_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight,
                         const Tensor& mean, const Tensor& rstd, const Tensor& residual, Tensor dx,
                         Tensor dweight, Tensor dbias, const Tensor& addend,
                         Accumulate accumulate) {
  const double flops = (mean.defined() ? 12.0 : 9.0) + (dbias.defined() ? 1.0 : 0.0) +
                       (residual.defined() ? 1.0 : 0.0) + (addend.defined() ? 1.0 : 0.0);
  log_work({.flops = flops * elements_of(x),
            .bytes_read = bytes_of(dy, x, weight, mean, rstd, residual, addend) +
                          (accumulate == Accumulate::yes ? bytes_of(dweight, dbias) : 0.0),
            .bytes_written = bytes_of(dx, dweight, dbias)});
  log_backward_workspace(x.dim(-1));
}

}  // namespace tessera::meta
