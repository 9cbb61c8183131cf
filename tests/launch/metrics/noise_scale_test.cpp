#include "launch/metrics/noise_scale.h"

#include <gtest/gtest.h>

#include <limits>

#include "launch/support/text/json.h"

namespace tessera {
namespace {

/// The expected squares of a gradient of length² `signal` with noise of trace `noise`.
GradientSquares squares(double signal, double noise) {
  return {signal + noise / 4, signal + noise / 32, 4, 32};
}

TEST(NoiseScale, IsTheRatioOfAverages) {
  NoiseScale scale;
  EXPECT_EQ(scale.value(), std::nullopt);
  scale.add(squares(2.0, 30.0));
  EXPECT_NEAR(scale.value().value(), 15.0, 1e-12);
  scale.add(squares(4.0, 10.0));
  EXPECT_NEAR(scale.value().value(), (0.95 * 30.0 + 0.05 * 10.0) / (0.95 * 2.0 + 0.05 * 4.0),
              1e-12);
  // A measurement of a step that was not finite changes nothing.
  const double before = *scale.value();
  scale.add({std::numeric_limits<double>::infinity(), 1.0, 4, 32});
  EXPECT_EQ(scale.value(), before);

  NoiseScale resumed;
  resumed.restore(scale.averages());
  EXPECT_EQ(resumed.value(), before);
  resumed.restore({});
  EXPECT_EQ(resumed.value(), std::nullopt);
}

TEST(NoiseScale, IsUnknownWhileAnAverageIsNotPositive) {
  NoiseScale scale;
  scale.add({5.0, 0.1, 4, 32});  // |G|² = (3.2 − 20) / 28
  EXPECT_EQ(scale.value(), std::nullopt);
  for (int i = 0; i < 40; ++i) scale.add(squares(1.0, 1.0));
  EXPECT_TRUE(scale.value().has_value());
}

}  // namespace
}  // namespace tessera
