#include <algorithm>
#include <cmath>

#include "core/cuda/graph.h"
#include "tests/emulator/cudnn/fixture.h"

namespace tessera::cuda::cudnn_test {
namespace {

TEST_F(Cudnn, BoundsMaskAsDocumented) {
  for (const int left : {0, 1, 3}) {
    for (const int right : {-1, 0, 2}) {
      Forward forward;
      if (left > 0) forward.attributes.set_diagonal_band_left_bound(left);
      if (right >= 0) forward.attributes.set_diagonal_band_right_bound(right);
      ASSERT_EQ(forward.build(handle_).get_message(), "");
      ASSERT_EQ(run(forward.graph).get_message(), "");
      for (int64_t t = 0; t < kLength; ++t) {
        const int64_t first = left > 0 ? std::max<int64_t>(0, t - left + 1) : 0;
        const int64_t end = right >= 0 ? std::min<int64_t>(kLength, t + right + 1) : kLength;
        EXPECT_NEAR(statistic(1, 1, t), std::log(static_cast<double>(end - first)), 1e-6)
            << "row " << t << " with bounds " << left << " and " << right;
      }
    }
  }
}

TEST_F(Cudnn, RowsBeyondLengthAreNeitherReadNorWritten) {
  pointers_[kQueryLengths] = query_lengths_.get();
  pointers_[kKeyLengths] = key_lengths_.get();
  query_lengths_.get()[0] = 4, key_lengths_.get()[0] = 3;
  query_lengths_.get()[1] = 2, key_lengths_.get()[1] = 0;
  Forward forward;
  forward.pad();
  forward.attributes.set_diagonal_band_left_bound(1);  // row 3 of the first sees no keys
  ASSERT_EQ(forward.build(handle_).get_message(), "");
  ASSERT_EQ(run(forward.graph).get_message(), "");
  const auto out = [&](int64_t b, int64_t t) {
    return static_cast<float>(o_[(b * kLength + t) * kHeads * kFeatures]);
  };
  for (int64_t t = 0; t < kLength; ++t) {
    EXPECT_EQ(std::isnan(statistic(0, 0, t)), t >= 3) << t;
    EXPECT_EQ(std::isnan(out(0, t)), t >= 3) << t;
    EXPECT_TRUE(std::isnan(statistic(1, 0, t)) && std::isnan(out(1, t))) << t;
  }
}

using CudnnDeathTest = Cudnn;

TEST_F(CudnnDeathTest, LengthBeyondTensorEndsProcess) {
  pointers_[kQueryLengths] = query_lengths_.get();
  pointers_[kKeyLengths] = key_lengths_.get();
  key_lengths_.get()[1] = kLength + 1;
  Forward forward;
  forward.pad();
  ASSERT_EQ(forward.build(handle_).get_message(), "");
  EXPECT_DEATH((void)run(forward.graph), "sequence 1 has length 7 of at most 6");
}

TEST_F(CudnnDeathTest, PlansAreCompiledBeforeCaptureAndOutliveGraphs) {
  auto forward = std::make_unique<Forward>();
  ASSERT_TRUE(forward->build(handle_).is_good());
  const cuda::Graph graph([&] { ASSERT_TRUE(run(forward->graph).is_good()); });
  graph.launch();
  EXPECT_NEAR(statistic(0, 0, 0), std::log(6.0), 1e-6);
  forward.reset();
  EXPECT_DEATH(graph.launch(), "a graph launches a cuDNN plan that was destroyed");

  const auto compile = [&] {
    Forward other;
    EXPECT_NE(other.build(handle_).get_message().find("captured"), std::string::npos);
  };
  EXPECT_THROW(cuda::Graph{compile}, std::exception) << "the capture is invalidated";
}

}  // namespace
}  // namespace tessera::cuda::cudnn_test
