#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/memory.h"
#include "core/tensor.h"

/// Shared by tests of ops: tensors with known contents, and comparisons with justified tolerances.
namespace tessera::test {

/// The device of tensors in tests of ops: the CPU, or with TESSERA_TEST_DEVICE=cuda the GPU, real
/// or emulated, with memory that the host can access. A real GPU needs CUDA_LAUNCH_BLOCKING=1, so
/// that ops are done when they return.
Device test_device();
inline bool on_gpu() { return test_device().is_cuda(); }

/// Names typed tests after their dtype.
inline constexpr auto name_of_dtype = [](const auto& instance) {
  return std::string(to_string(instance.param));
};

/// Makes this GPU current for the calling thread, and its test_device() if that is a GPU.
void use_test_gpu(int index);

/// A tensor on test_device().
struct TestTensor : OwnedTensor {
  TestTensor() = default;
  TestTensor(const Shape& shape, DType dtype, Device device = test_device())
      : OwnedTensor(shape, dtype, device) {}
};

/// Normal random numbers with mean zero, determined by the seed. fp32 or bf16.
TestTensor random_tensor(const Shape& shape, DType dtype, uint64_t seed, float stddev = 1.0f);

/// Uniform int32 in [low, high).
TestTensor random_ints(const Shape& shape, int32_t low, int32_t high, uint64_t seed);

/// Values rounded to `dtype` (fp32 or bf16).
TestTensor from_doubles(std::span<const double> values, const Shape& shape, DType dtype);

TestTensor from_ints(std::span<const int32_t> values, const Shape& shape);

/// Copies a tensor.
TestTensor copy_of(const Tensor& tensor);

/// Returns all elements exactly. fp32, bf16, fp64 or int32.
std::vector<double> to_doubles(const Tensor& tensor);

/// The largest relative error of rounding to nearest: 2⁻²⁴ for fp32, 2⁻⁸ for bf16.
double unit_roundoff(DType dtype);

/// The relative tolerance for a sum of `length` products in fp32, rounded to `dtype`, compared with
/// the same sum in double.
double sum_tolerance(DType dtype, int64_t length);

/// Root mean square: the typical magnitude.
double root_mean_square(std::span<const double> values);

/// Expects |actual − expected| ≤ tolerance × max(|expected|, root mean square of all expected) for
/// every element, so that elements near zero with canceling terms are measured by the others.
/// Infinities must be equal; NaN fails. Reports the first and the worst element.
void expect_close(const Tensor& actual, std::span<const double> expected, double tolerance,
                  const char* what);
void expect_close(std::span<const double> actual, std::span<const double> expected,
                  double tolerance, const char* what);

/// Expects equal dtype, shape and bytes.
void expect_same_bits(const Tensor& actual, const Tensor& expected, const char* what);

/// Sets the number of OpenMP threads for its lifetime.
class ThreadCount {
 public:
  explicit ThreadCount(int count);
  ~ThreadCount();
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int before_;
};

}  // namespace tessera::test
