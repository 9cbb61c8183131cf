// Where a GPU has cuBLASLt, the emulated one multiplies with the CPU's library.

#include "core/ops/cuda/matmul.h"

#include "core/cuda/stream.h"
#include "core/memory.h"
#include "core/ops/cpu/matmul.h"
#include "core/ops/cpu/ops.h"
#include "tests/simt/device_memory.h"

namespace tessera::cuda {
namespace {

/// A Matrix refers to a tensor; this has it, until the work is done.
struct Operand {
  Tensor tensor;
  int64_t rows, cols;
  Layout layout;

  explicit Operand(const Matrix& matrix)
      : tensor(matrix.tensor), rows(matrix.rows), cols(matrix.cols), layout(matrix.layout) {}
  Matrix matrix() const { return {tensor, rows, cols, layout}; }
};

}  // namespace

void matmul(const Matrix& a, const Matrix& b, const Tensor& bias, Tensor out,
            Accumulate accumulate) {
  simt::enqueue(stream(), [=, a = Operand(a), b = Operand(b)] {
    const simt::DeviceAccess access;
    cpu::matmul(a.matrix(), b.matrix(), bias, out, accumulate);
  });
}

void matmul_gelu(const Matrix& a, const Matrix& b, const Tensor& bias, Tensor hidden,
                 Tensor active) {
  simt::enqueue(stream(), [=, a = Operand(a), b = Operand(b)] {
    const simt::DeviceAccess access;
    const OwnedTensor sums(hidden.shape(), DType::f32);
    cpu::matmul(a.matrix(), b.matrix(), bias, sums.tensor, Accumulate::no);
    cpu::copy(sums.tensor, hidden);
    cpu::gelu_forward(sums.tensor, Gelu::tanh, sums.tensor);
    cpu::copy(sums.tensor, active);
  });
}

void matmul_gelu_backward(const Matrix& a, const Matrix& b, const Tensor& hidden, Tensor out) {
  simt::enqueue(stream(), [=, a = Operand(a), b = Operand(b)] {
    const simt::DeviceAccess access;
    const OwnedTensor sums(out.shape(), DType::f32), wide_hidden(out.shape(), DType::f32);
    cpu::matmul(a.matrix(), b.matrix(), {}, sums.tensor, Accumulate::no);
    cpu::copy(hidden, wide_hidden.tensor);
    cpu::gelu_backward(sums.tensor, wide_hidden.tensor, Gelu::tanh, sums.tensor);
    cpu::copy(sums.tensor, out);
  });
}

}  // namespace tessera::cuda
