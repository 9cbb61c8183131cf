#include "core/ops/cpu/streams.h"

#include <gtest/gtest.h>

#include <array>
#include <type_traits>
#include <vector>

#include "core/ops/cpu/vector_math.h"

namespace tessera::cpu {
namespace {

TEST(Streams, BlocksCoverElementsInOrder) {
  for (const int64_t n : {0, 1, 63, 64, 65, 128, 1000}) {
    const std::vector<float> read(static_cast<size_t>(n));
    std::vector<float> written(static_cast<size_t>(n));
    int64_t next = 0;
    bool constant = true;
    const auto block = [&](int64_t first, auto count) {
      EXPECT_EQ(first, next);
      constant = constant && !std::is_same_v<decltype(count), int64_t>;
      if (first + kBlock <= n) {
        EXPECT_EQ(static_cast<int64_t>(count), kBlock);
      }
      next = first + count;
    };
    for_each_block(n, block, read.data(), written.data());
    EXPECT_EQ(next, n);
    EXPECT_EQ(constant, n % kBlock == 0) << n;
  }
}

TEST(Streams, FoldsSixteenLanes) {
  std::array<float, 16> lanes;
  for (size_t i = 0; i < lanes.size(); ++i) lanes[i] = static_cast<float>((i * 7) % 16);
  const auto add = [](float a, float b) { return a + b; };
  const auto larger = [](float a, float b) { return b > a ? b : a; };
  EXPECT_EQ(vec::fold16(lanes.data(), add), 120.0f);
  EXPECT_EQ(vec::fold16(lanes.data(), larger), 15.0f);
}

}  // namespace
}  // namespace tessera::cpu
