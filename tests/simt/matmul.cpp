// Where a GPU has cuBLASLt, the emulated one multiplies with the CPU's library.

#include "core/ops/cuda/matmul.h"

#include <bit>

#include "core/cuda/stream.h"
#include "core/cuda/workspace.h"
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

thread_local bool tf32 = false;

/// The nearest of TF32's numbers, which lack 13 bits of fp32's fraction. Ties go away from zero.
float round_to_tf32(float value) {
  const auto u = std::bit_cast<uint32_t>(value);
  const bool is_finite = (u & 0x7f800000u) != 0x7f800000u;
  return is_finite ? std::bit_cast<float>((u + 0x1000u) & ~0x1fffu) : value;
}

/// An operand as tensor cores take it in TF32.
class Tf32Operand {
 public:
  explicit Tf32Operand(const Matrix& matrix)
      : cut_(matrix.tensor.shape(), DType::f32),
        rows_(matrix.rows),
        cols_(matrix.cols),
        layout_(matrix.layout) {
    const auto from = matrix.tensor.span<float>(), to = cut_.tensor.span<float>();
    for (size_t i = 0; i < from.size(); ++i) to[i] = round_to_tf32(from[i]);
  }
  Matrix matrix() const { return {cut_.tensor, rows_, cols_, layout_}; }

 private:
  OwnedTensor cut_;
  int64_t rows_, cols_;
  Layout layout_;
};

}  // namespace

void use_tf32(bool on) { tf32 = on; }

void matmul(const Matrix& a, const Matrix& b, const Tensor& bias, Tensor out,
            Accumulate accumulate) {
  const bool cut = tf32 && a.tensor.dtype() == DType::f32;
  simt::enqueue(stream(), [=, a = Operand(a), b = Operand(b)] {
    const simt::DeviceAccess access;
    if (!cut) return cpu::matmul(a.matrix(), b.matrix(), bias, out, accumulate);
    const Tf32Operand cut_a(a.matrix()), cut_b(b.matrix());
    cpu::matmul(cut_a.matrix(), cut_b.matrix(), bias, out, accumulate);
  });
}

void matmul_row_sums(const Matrix& a, const Matrix& b, Tensor out, Accumulate accumulate,
                     Tensor sums) {
  const Tensor fresh(workspace(sums.bytes()), sums.shape(), sums.dtype(), sums.device());
  matmul(a, b, {}, out, accumulate);
  simt::enqueue(stream(), [=, rows = a.tensor] {
    const simt::DeviceAccess access;
    cpu::fill(fresh, 0.0);
    cpu::column_sum(rows, fresh);
  });
  add_bias(fresh, sums);
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
