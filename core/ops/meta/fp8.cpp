#include "core/ops/fp8.h"

#include "core/ops/cuda/workspace_sizes.h"
#include "core/ops/device_ops.h"
#include "core/ops/meta/log_work.h"
#include "core/ops/meta/workspace_log.h"

namespace tessera::meta {
namespace {

// A maximum, a multiplication and the rounding.
void log_quantize(const Tensor& source, const Fp8Matrix& out) {
  log_work({.flops = 3.0 * elements_of(source),
            .bytes_read = bytes_of(source),
            .bytes_written = bytes_of(out.codes, out.scales)});
}

}  // namespace

void quantize_fp8_rows(const Tensor& x, const Fp8Matrix& out) { log_quantize(x, out); }
void quantize_fp8_weights(const Tensor& w, MatrixLayout /*layout*/, const Fp8Matrix& out) {
  log_quantize(w, out);
}

void linear_fp8(const Fp8Matrix& x, const Fp8Matrix& w, const Tensor& bias, Tensor y) {
  log_work({.matmul_flops = 2.0 * elements_of(y) * static_cast<double>(w.codes.dim(1)),
            .flops = bias.defined() ? elements_of(y) : 0.0,
            .bytes_read = bytes_of(x.codes, x.scales, w.codes, w.scales, bias),
            .bytes_written = bytes_of(y)});
  log_workspace(cuda::fp8_workspace(y.dim(-1)));
}

}  // namespace tessera::meta
