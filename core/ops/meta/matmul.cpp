#include "core/ops/meta/matmul.h"

#include "core/ops/cuda/workspace_sizes.h"
#include "core/ops/meta/activation.h"
#include "core/ops/meta/log_work.h"
#include "core/ops/meta/product_log.h"
#include "core/ops/meta/workspace_log.h"

namespace tessera::meta {
namespace {

OpWork product(const Matrix& a, const Matrix& b, const Tensor& bias, const Tensor& out,
               Accumulate accumulate) {
  const bool adds = accumulate == Accumulate::yes;
  return {.matmul_flops = 2.0 * elements_of(out) * static_cast<double>(a.cols),
          .flops = ((bias.defined() ? 1.0 : 0.0) + (adds ? 1.0 : 0.0)) * elements_of(out),
          .bytes_read = bytes_of(a.tensor, b.tensor, bias) + (adds ? bytes_of(out) : 0.0),
          .bytes_written = bytes_of(out)};
}

void log_product(const Matrix& a, const Matrix& b, const Tensor& out, cuda::Epilogue epilogue,
                 Accumulate accumulate) {
  log_workspace(cuda::kCublasLtWorkspaceBytes);
  ProductLog* log = ProductLog::current();
  if (log == nullptr || out.numel() == 0 || a.cols == 0) return;
  constexpr uint8_t kAlignment = 16;
  log->add({a.rows, b.cols, a.cols, a.layout, b.layout, a.tensor.dtype(), out.dtype(), epilogue,
            accumulate == Accumulate::yes, kAlignment});
}

}  // namespace

void matmul(const Matrix& a, const Matrix& b, const Tensor& bias, Tensor out,
            Accumulate accumulate) {
  log_work(product(a, b, bias, out, accumulate));
  log_product(a, b, out, bias.defined() ? cuda::Epilogue::bias : cuda::Epilogue::none, accumulate);
}

void matmul_row_sums(const Matrix& a, const Matrix& b, Tensor out, Accumulate accumulate,
                     Tensor sums, Accumulate accumulate_sums) {
  OpWork work = product(a, b, {}, out, accumulate);
  work += {.flops = elements_of(a.tensor),
           .bytes_read = accumulate_sums == Accumulate::yes ? bytes_of(sums) : 0.0,
           .bytes_written = bytes_of(sums)};
  log_work(work);
  log_product(a, b, out, cuda::Epilogue::row_sums, accumulate);
  log_workspace(cuda::kCublasLtWorkspaceBytes + sums.bytes());
}

void matmul_gelu(const Matrix& a, const Matrix& b, const Tensor& bias, Tensor hidden,
                 Tensor active) {
  OpWork work = product(a, b, bias, hidden, Accumulate::no);
  work += {.flops = activation_flops(Activation::gelu_tanh) * elements_of(active),
           .bytes_written = bytes_of(active)};
  log_work(work);
  log_product(a, b, active, bias.defined() ? cuda::Epilogue::bias_gelu : cuda::Epilogue::gelu,
              Accumulate::no);
}

void matmul_gelu_backward(const Matrix& a, const Matrix& b, const Tensor& hidden, Tensor out) {
  OpWork work = product(a, b, {}, out, Accumulate::no);
  work += {.flops = activation_backward_flops(Activation::gelu_tanh) * elements_of(out),
           .bytes_read = bytes_of(hidden)};
  log_work(work);
  log_product(a, b, out, cuda::Epilogue::gelu_backward, Accumulate::no);
}

}  // namespace tessera::meta
