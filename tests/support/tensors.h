#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/memory.h"
#include "core/tensor.h"

/// What tests of ops share: tensors with known contents, and comparisons whose tolerance has a
/// reason.
namespace tessera::test {

/// Where tests of ops have their tensors: the CPU, or with TESSERA_TEST_DEVICE=cuda the GPU, real
/// or emulated, in memory that the host sees too. On a real one CUDA_LAUNCH_BLOCKING=1 must be set,
/// so that an op is done when it returns.
Device test_device();
inline bool on_gpu() { return test_device().is_cuda(); }

/// Names tests of each type.
inline constexpr auto name_of_dtype = [](const auto& instance) {
  return std::string(to_string(instance.param));
};

/// Makes that GPU the calling thread's, and its test_device() if it is one.
void use_test_gpu(int index);

/// A tensor on test_device().
struct TestTensor : OwnedTensor {
  TestTensor() = default;
  TestTensor(const Shape& shape, DType dtype, Device device = test_device())
      : OwnedTensor(shape, dtype, device) {}
};

/// Normal numbers with mean zero, the same for the same seed. fp32 or bf16.
TestTensor random_tensor(const Shape& shape, DType dtype, uint64_t seed, float stddev = 1.0f);

/// Uniform int32 in [low, high).
TestTensor random_ints(const Shape& shape, int32_t low, int32_t high, uint64_t seed);

/// Values rounded to `dtype` (fp32 or bf16).
TestTensor from_doubles(std::span<const double> values, const Shape& shape, DType dtype);

TestTensor from_ints(std::span<const int32_t> values, const Shape& shape);

/// The same elements in memory of its own.
TestTensor copy_of(const Tensor& tensor);

/// All elements, exactly. fp32, bf16, fp64 or int32.
std::vector<double> to_doubles(const Tensor& tensor);

/// The largest relative error of one rounding to nearest: 2⁻²⁴ for fp32, 2⁻⁸ for bf16.
double unit_roundoff(DType dtype);

/// Relative tolerance for a sum of `length` products in fp32 that is then rounded to `dtype`,
/// against the same sum in double on the same inputs.
double sum_tolerance(DType dtype, int64_t length);

/// Root of the mean of squares: the typical magnitude.
double root_mean_square(std::span<const double> values);

/// Expects |actual − expected| ≤ tolerance × max(|expected|, root mean square of all expected) for
/// every element, so that an element near zero whose terms cancel is measured by its neighbours.
/// Infinities must be equal; a NaN fails. The first and the worst element are reported.
void expect_close(const Tensor& actual, std::span<const double> expected, double tolerance,
                  const char* what);
void expect_close(std::span<const double> actual, std::span<const double> expected,
                  double tolerance, const char* what);

/// Expects equal dtype, shape and bytes.
void expect_same_bits(const Tensor& actual, const Tensor& expected, const char* what);

/// Sets the number of OpenMP threads while it lives.
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
