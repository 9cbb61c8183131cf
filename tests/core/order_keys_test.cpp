#include "core/ops/cuda/embedding/order_keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "core/cuda/runtime.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

template <typename T>
std::vector<T> ascending() {
  using Limits = std::numeric_limits<T>;
  return {-Limits::infinity(),
          -Limits::max(),
          T(-2),
          T(-1.5),
          -Limits::min(),
          -Limits::denorm_min(),
          T(-0.0),
          T(0.0),
          Limits::denorm_min(),
          Limits::min(),
          T(1),
          T(1e10),
          Limits::max(),
          Limits::infinity(),
          Limits::quiet_NaN()};
}

template <typename T, typename Int>
void expect_order_and_return() {
  if constexpr (kHasCuda) {
    const std::vector<T> values = ascending<T>();
    const auto n = static_cast<int64_t>(values.size());
    test::TestTensor x({n}, dtype_of<T>());
    std::memcpy(x.tensor.raw(), values.data(), x.tensor.bytes());
    cuda::to_order_keys(x.tensor);
    cuda::synchronize();
    std::vector<Int> keys(values.size());
    std::memcpy(keys.data(), x.tensor.raw(), x.tensor.bytes());
    for (size_t i = 1; i < keys.size(); ++i) {
      EXPECT_LT(keys[i - 1], keys[i]) << values[i - 1] << " and " << values[i];
    }
    cuda::from_order_keys(x.tensor);
    cuda::synchronize();
    EXPECT_EQ(std::memcmp(x.tensor.raw(), values.data(), x.tensor.bytes()), 0);

    const T negative_nan = std::copysign(std::numeric_limits<T>::quiet_NaN(), T(-1));
    test::TestTensor nan({1}, dtype_of<T>());
    nan.tensor.data<T>()[0] = negative_nan;
    cuda::to_order_keys(nan.tensor);
    cuda::synchronize();
    Int key = 0;
    std::memcpy(&key, nan.tensor.raw(), sizeof(key));
    EXPECT_EQ(key, keys.back()) << "a negative NaN sorts last, too";
  }
}

TEST(OrderKeys, KeepOrderAndRoundTrip) {
  if (!test::on_gpu()) GTEST_SKIP() << "CPU ranks need no order keys";
  expect_order_and_return<float, int32_t>();
  expect_order_and_return<double, int64_t>();
}

}  // namespace
}  // namespace tessera
