#include "tests/support/tensors.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string_view>

#include "core/cuda/runtime.h"
#include "core/error.h"

namespace tessera::test {
namespace {

Device read_test_device() {
  const char* name = std::getenv("TESSERA_TEST_DEVICE");
  if (name == nullptr || name == std::string_view("cpu")) return kCpu;
  require(name == std::string_view("cuda"), "TESSERA_TEST_DEVICE is {}, but must be cpu or cuda",
          name);
  require(kHasCuda, "TESSERA_TEST_DEVICE is cuda, but this build has no CUDA support");
  if constexpr (kHasCuda) cuda::make_memory_host_visible();
  return {DeviceType::cuda, 0};
}

/// Call before the host reads.
void finish_work() {
  if constexpr (kHasCuda) {
    if (on_gpu()) cuda::synchronize();
  }
}

}  // namespace

namespace {

thread_local int8_t gpu_of_thread = 0;

}  // namespace

Device test_device() {
  static const Device device = read_test_device();
  return device.is_cuda() ? Device{DeviceType::cuda, gpu_of_thread} : device;
}

void use_test_gpu(int index) {
  gpu_of_thread = static_cast<int8_t>(index);
  if constexpr (kHasCuda) cuda::use_device(index);
}

namespace {

void store(const Tensor& tensor, size_t i, double value) {
  if (tensor.dtype() == DType::f32) {
    tensor.data<float>()[i] = static_cast<float>(value);
  } else {
    // Converts through fp32: double rounding does not change the values that tests use.
    tensor.data<bfloat16>()[i] = bfloat16(static_cast<float>(value));
  }
}

double load(const Tensor& tensor, size_t i) {
  switch (tensor.dtype()) {
    case DType::f32:
      return tensor.data<float>()[i];
    case DType::bf16:
      return static_cast<float>(tensor.data<bfloat16>()[i]);
    case DType::f64:
      return tensor.data<double>()[i];
    case DType::i32:
      return tensor.data<int32_t>()[i];
    default:
      fail("to_doubles does not support {}", to_string(tensor.dtype()));
  }
}

}  // namespace

TestTensor random_tensor(const Shape& shape, DType dtype, uint64_t seed, float stddev) {
  TestTensor result(shape, dtype);
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal(0.0, stddev);
  for (size_t i = 0; i < static_cast<size_t>(shape.numel()); ++i) {
    store(result.tensor, i, normal(generator));
  }
  return result;
}

TestTensor random_ints(const Shape& shape, int32_t low, int32_t high, uint64_t seed) {
  TestTensor result(shape, DType::i32);
  std::mt19937_64 generator(seed);
  std::uniform_int_distribution<int32_t> uniform(low, high - 1);
  for (int32_t& value : result.tensor.span<int32_t>()) value = uniform(generator);
  return result;
}

TestTensor from_doubles(std::span<const double> values, const Shape& shape, DType dtype) {
  require(static_cast<int64_t>(values.size()) == shape.numel(), "{} values do not fill shape {}",
          values.size(), to_string(shape));
  TestTensor result(shape, dtype);
  for (size_t i = 0; i < values.size(); ++i) store(result.tensor, i, values[i]);
  return result;
}

TestTensor from_ints(std::span<const int32_t> values, const Shape& shape) {
  require(static_cast<int64_t>(values.size()) == shape.numel(), "{} values do not fill shape {}",
          values.size(), to_string(shape));
  TestTensor result(shape, DType::i32);
  std::copy(values.begin(), values.end(), result.tensor.data<int32_t>());
  return result;
}

TestTensor copy_of(const Tensor& tensor) {
  finish_work();
  TestTensor result(tensor.shape(), tensor.dtype());
  if (tensor.bytes() > 0) std::memcpy(result.tensor.raw(), tensor.raw(), tensor.bytes());
  return result;
}

std::vector<double> to_doubles(const Tensor& tensor) {
  finish_work();
  std::vector<double> values(static_cast<size_t>(tensor.numel()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = load(tensor, i);
  return values;
}

double unit_roundoff(DType dtype) { return dtype == DType::bf16 ? 0x1p-8 : 0x1p-24; }

// Each of the `length` additions has an error of up to one unit of roundoff of the partial sum.
// Errors are practically independent, so they add up like a random walk: sqrt(length) units. The
// tolerance is four standard deviations, plus a few roundings of the terms and the sum, plus the
// rounding to the dtype of the result.
double sum_tolerance(DType dtype, int64_t length) {
  const double walk = 4.0 * (1.0 + std::sqrt(static_cast<double>(length)));
  return unit_roundoff(dtype) + walk * unit_roundoff(DType::f32);
}

double root_mean_square(std::span<const double> values) {
  double squares = 0.0;
  int64_t count = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    squares += value * value;
    ++count;
  }
  return count == 0 ? 0.0 : std::sqrt(squares / static_cast<double>(count));
}

void expect_close(std::span<const double> actual, std::span<const double> expected,
                  double tolerance, const char* what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  const double typical = root_mean_square(expected);
  size_t wrong = 0, first = 0, worst = 0;
  double worst_ratio = 0.0;
  for (size_t i = 0; i < actual.size(); ++i) {
    if (actual[i] == expected[i]) continue;
    const double allowed = tolerance * std::max(std::abs(expected[i]), typical);
    const double error = std::abs(actual[i] - expected[i]);
    if (std::isfinite(expected[i]) && error <= allowed) continue;
    const double ratio = std::isfinite(error) ? error / allowed : INFINITY;
    if (wrong++ == 0) first = i;
    if (ratio > worst_ratio) {
      worst_ratio = ratio;
      worst = i;
    }
  }
  EXPECT_EQ(wrong, 0u) << what << ": " << wrong << " of " << actual.size()
                       << " elements are off; first [" << first << "] is " << actual[first]
                       << ", expected " << expected[first] << "; worst [" << worst << "] is "
                       << actual[worst] << ", expected " << expected[worst] << ", " << worst_ratio
                       << " × the tolerance " << tolerance << " (typical magnitude " << typical
                       << ")";
}

void expect_close(const Tensor& actual, std::span<const double> expected, double tolerance,
                  const char* what) {
  expect_close(to_doubles(actual), expected, tolerance, what);
}

void expect_same_bits(const Tensor& actual, const Tensor& expected, const char* what) {
  ASSERT_EQ(actual.dtype(), expected.dtype()) << what;
  ASSERT_EQ(actual.shape(), expected.shape()) << what;
  if (actual.numel() == 0) return;
  finish_work();
  const size_t size = size_of(actual.dtype());
  const auto* a = static_cast<const std::byte*>(actual.raw());
  const auto* b = static_cast<const std::byte*>(expected.raw());
  if (std::memcmp(a, b, actual.bytes()) == 0) return;
  for (size_t i = 0; i < static_cast<size_t>(actual.numel()); ++i) {
    ASSERT_EQ(std::memcmp(a + i * size, b + i * size, size), 0)
        << what << ": element " << i << " differs in its bits";
  }
}

ThreadCount::ThreadCount(int count) : before_(omp_get_max_threads()) { omp_set_num_threads(count); }

ThreadCount::~ThreadCount() { omp_set_num_threads(before_); }

}  // namespace tessera::test
