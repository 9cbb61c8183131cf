#include "core/ops/cuda/matmul/matmul.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "core/cuda/runtime.h"
#include "core/cuda/stream.h"
#include "core/cuda/workspace.h"
#include "core/error.h"
#include "core/ops/cuda/matmul/algorithms.h"
#include "core/ops/cuda/matmul/cublas.h"
#include "core/ops/cuda/matmul/fusions.h"
#include "core/ops/cuda/workspace_sizes.h"
#include "core/ops/device_ops.h"

namespace tessera::cuda {
namespace {

thread_local bool tf32 = false;
thread_local int left_multiprocessors = 0;

/// ProductKey::multiprocessors
int32_t multiprocessors_of_products() {
  return left_multiprocessors == 0 ? 0 : std::max(1, multiprocessors() - left_multiprocessors);
}

/// The arguments of a product. `vector` is a bias, or the sums that it writes; `auxiliary` is the
/// second output or input of the epilogue.
struct Product {
  const Matrix& a;
  const Matrix& b;
  const Tensor& vector;
  const Tensor& auxiliary;
  const Tensor& out;
  Epilogue epilogue;
  bool accumulate;
  const float* a_scales = nullptr;  // of codes
  const float* b_scales = nullptr;

  ProductKey key() const {
    uint8_t alignment = std::min(
        {alignment_of(a.tensor.raw()), alignment_of(b.tensor.raw()), alignment_of(out.raw())});
    for (const Tensor* tensor : {&vector, &auxiliary}) {
      if (tensor->defined()) alignment = std::min(alignment, alignment_of(tensor->raw()));
    }
    const DType in = a.tensor.dtype();
    return {a.rows,
            b.cols,
            a.cols,
            a.layout,
            b.layout,
            in,
            out.dtype(),
            epilogue,
            accumulate,
            alignment,
            tf32 && in == DType::f32,
            multiprocessors_of_products()};
  }
};

/// Runs the product with the algorithm for `key`: its sizes, rounded or not.
cublasStatus_t enqueue(const Product& product, const ProductKey& sizes, const ProductKey& key) {
  const std::optional<cublasLtMatmulAlgo_t>& algorithm = algorithm_for(key);
  if (!algorithm) return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto pointer = [](const Tensor& tensor) {
    return tensor.defined() ? tensor.raw() : nullptr;
  };
  Descriptors descriptors(sizes, {pointer(product.vector), pointer(product.auxiliary),
                                  product.a_scales, product.b_scales});
  const float alpha = 1.0f, beta = product.accumulate ? 1.0f : 0.0f;
  void* const scratch = workspace(kCublasLtWorkspaceBytes);
  return cublasLtMatmul(cublas_handle(), descriptors.product(), &alpha, product.b.tensor.raw(),
                        descriptors.first(), product.a.tensor.raw(), descriptors.second(), &beta,
                        product.out.raw(), descriptors.out(), product.out.raw(), descriptors.out(),
                        &*algorithm, scratch, kCublasLtWorkspaceBytes, stream());
}

/// Returns false, without doing anything, if cuBLASLt has no such product, or if the GPU is faster
/// without its epilogue.
bool run(const Product& product) {
  if (product.epilogue != Epilogue::none && !fuses(product.epilogue, product.b.cols)) return false;
  const ProductKey sizes = product.key(), rounded = algorithm_key(sizes);
  cublasStatus_t status = enqueue(product, sizes, rounded);
  if (is_not_taken(status) && rounded != sizes) status = enqueue(product, sizes, sizes);
  if (is_not_taken(status)) return false;
  check(status, "a matrix product");
  bound_queue();
  return true;
}

/// y = x wᵀ, or y += x wᵀ, for a multiple of kFp8Rows rows of codes and their scales.
void multiply_codes(const Tensor& x, const float* scales, const Fp8Matrix& w, bool adds,
                    const Tensor& y) {
  const int64_t rows = x.dim(0), n = w.codes.dim(0), k = w.codes.dim(1);
  const Tensor nothing;
  if (run({{x, rows, k, MatrixLayout::rows},
           {w.codes, k, n, MatrixLayout::columns},
           nothing,
           nothing,
           y,
           Epilogue::none,
           adds,
           scales,
           w.scales.data<float>()})) {
    return;
  }
  const auto reason = fp8_unsupported_reason();
  fail("linear_fp8: no product of codes ({}, {}) and ({}, {}): {}", rows, k, n, k,
       reason ? *reason : "cuBLASLt " + cublaslt_version() + " has none of this size");
}

/// cuBLASLt does not support these epilogues for sums of one term; which releases report that is
/// unknown.
bool has_gradient_epilogues(const Matrix& a) { return a.cols > 1; }

}  // namespace

void use_tf32(bool on) { tf32 = on; }
bool uses_tf32() { return tf32; }

void leave_multiprocessors(int count) { left_multiprocessors = count; }

void matmul(const Matrix& a, const Matrix& b, const Tensor& bias, Tensor out,
            Accumulate accumulate) {
  if (out.numel() == 0) return;
  const bool empty_sum = a.cols == 0;
  if (empty_sum) {
    require(!bias.defined(), "matmul: a bias on a product over an empty dim is not supported");
    if (accumulate == Accumulate::yes) return;
    check(cudaMemsetAsync(out.raw(), 0, out.bytes(), stream()), "cudaMemset");
    return;
  }
  const bool adds = accumulate == Accumulate::yes;
  const Tensor nothing;
  if (bias.defined() && run({a, b, bias, nothing, out, Epilogue::bias, adds})) return;
  // The product is added to the bias, not the bias to the product, so sums are rounded once.
  if (bias.defined()) add_bias(bias, out, accumulate);
  if (run({a, b, nothing, nothing, out, Epilogue::none, adds || bias.defined()})) return;
  fail("cuBLASLt has no {} product of ({}, {}) and ({}, {}) with results in {}",
       to_string(a.tensor.dtype()), a.rows, a.cols, b.rows, b.cols, to_string(out.dtype()));
}

// cuBLASLt overwrites the sums. Sums to add, or that are less aligned than the product, go behind
// its scratch first. Nothing moves them there, because the product requests less workspace.
void matmul_row_sums(const Matrix& a, const Matrix& b, Tensor out, Accumulate accumulate,
                     Tensor sums, Accumulate accumulate_sums) {
  auto* scratch = static_cast<std::byte*>(workspace(kCublasLtWorkspaceBytes + sums.bytes()));
  const bool direct = accumulate_sums == Accumulate::no && alignment_of(sums.raw()) == 16;
  const Tensor fresh(direct ? sums.raw() : scratch + kCublasLtWorkspaceBytes, sums.shape(),
                     sums.dtype(), sums.device());
  const Tensor nothing;
  if (has_gradient_epilogues(a) &&
      run({a, b, fresh, nothing, out, Epilogue::row_sums, accumulate == Accumulate::yes})) {
    if (!direct) add_bias(fresh, sums, accumulate_sums);
    return;
  }
  matmul(a, b, nothing, out, accumulate);
  column_sum(a.tensor, sums, accumulate_sums);
}

// The bias is written first, so that sums are rounded once. Results of the last rows are computed
// with zero rows, and copied.
void linear_fp8(const Fp8Matrix& x, const Fp8Matrix& w, const Tensor& bias, Tensor y) {
  const int64_t rows = rows_of(y), n = w.codes.dim(0), k = w.codes.dim(1);
  const Fp8RowScales places(rows, k);
  const Tensor result = y.view({rows, n});
  const auto multiply = [&](int64_t first, const Tensor& part) {
    if (bias.defined()) add_bias(bias, part, Accumulate::no);
    multiply_codes(x.codes.slice(first, first + part.dim(0)),
                   x.scales.data<float>() + first * places.blocks, w, bias.defined(), part);
  };
  if (places.whole > 0) multiply(0, result.slice(0, places.whole));
  if (places.whole == rows) return;
  auto* scratch = static_cast<std::byte*>(workspace(fp8_workspace(n))) + kCublasLtWorkspaceBytes;
  const Tensor last(scratch, {kFp8Rows, n}, DType::bf16, y.device());
  multiply(places.whole, last);
  cuda::copy(last.slice(0, rows - places.whole), result.slice(places.whole, rows));
}

void matmul_gelu(const Matrix& a, const Matrix& b, const Tensor& bias, Tensor hidden,
                 Tensor active) {
  const Epilogue epilogue = bias.defined() ? Epilogue::bias_gelu : Epilogue::gelu;
  if (run({a, b, bias, hidden, active, epilogue, /*accumulate=*/false})) return;
  matmul(a, b, bias, hidden, Accumulate::no);
  cuda::activation_forward(hidden, Activation::gelu_tanh, active);
}

void matmul_gelu_backward(const Matrix& a, const Matrix& b, const Tensor& hidden, Tensor out) {
  const Tensor nothing;
  if (has_gradient_epilogues(a) &&
      run({a, b, nothing, hidden, out, Epilogue::gelu_backward, /*accumulate=*/false})) {
    return;
  }
  matmul(a, b, nothing, out, Accumulate::no);
  cuda::activation_backward(out, hidden, Activation::gelu_tanh, out);
}

}  // namespace tessera::cuda
