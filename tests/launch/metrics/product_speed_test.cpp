#include "launch/metrics/product_speed.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tessera {
namespace {

TEST(ProductSpeed, IsPositiveAndFinite) {
  for (const DType precision : {DType::f32, DType::bf16}) {
    const double speed = product_speed(kCpu, precision, 64);
    EXPECT_GT(speed, 0.0);
    EXPECT_TRUE(std::isfinite(speed));
  }
}

}  // namespace
}  // namespace tessera
