#include "launch/metrics/retrieval.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "parallel/communicators/thread/thread_communicator.h"

namespace tessera {
namespace {

/// Vectors of length 1 in the plane.
std::vector<float> at_angles(const std::vector<double>& degrees) {
  std::vector<float> vectors;
  for (const double angle : degrees) {
    vectors.push_back(static_cast<float>(std::cos(angle * std::numbers::pi / 180.0)));
    vectors.push_back(static_cast<float>(std::sin(angle * std::numbers::pi / 180.0)));
  }
  return vectors;
}

TEST(RetrievalMetrics, CountPlacesOfPositives) {
  const std::vector<std::vector<double>> samples = {{0, 5}, {90, 60}, {170, 20}};
  double loss = 0.0;
  for (const auto& anchor : samples) {
    double sum = 0.0;
    for (const auto& other : samples) {
      sum += std::exp(3.0 * std::cos((anchor[0] - other[1]) * std::numbers::pi / 180.0));
    }
    loss += std::log(sum) - 3.0 * std::cos((anchor[0] - anchor[1]) * std::numbers::pi / 180.0);
  }
  for (const int ranks : {1, 2, 4}) {
    run_thread_ranks(ranks, [&](Communicator& dp) {
      RetrievalEvaluation evaluation(2, 3.0);
      for (size_t i = static_cast<size_t>(dp.rank()); i < samples.size();
           i += static_cast<size_t>(ranks)) {
        evaluation.add(at_angles(samples[i]), 2);
      }
      const Retrieval found = evaluation.finish(dp);
      EXPECT_NEAR(found.loss, loss / 3.0, 1e-6);
      // 170° is nearest to 60°, then to 20°.
      EXPECT_DOUBLE_EQ(found.accuracy_at_1, 2.0 / 3.0);
      EXPECT_DOUBLE_EQ(found.accuracy_at_10, 1.0);
      EXPECT_DOUBLE_EQ(found.mrr_at_10, (1.0 + 1.0 + 0.5) / 3.0);
    });
  }
}

TEST(RetrievalMetrics, HardNegativesAreCandidates) {
  run_thread_ranks(2, [](Communicator& dp) {
    RetrievalEvaluation evaluation(3, 1.0);
    // The second sample's negative is nearer to its anchor than its positive.
    if (dp.rank() == 1) {
      evaluation.add(at_angles({0, 1, 180, 90, 80, 89}), 2);
    }
    const Retrieval found = evaluation.finish(dp);
    EXPECT_DOUBLE_EQ(found.accuracy_at_1, 0.5);
    EXPECT_DOUBLE_EQ(found.mrr_at_10, 0.75);
  });
}

TEST(RetrievalMetrics, PlacesBeyondTenDoNotCount) {
  run_thread_ranks(1, [](Communicator& dp) {
    RetrievalEvaluation evaluation(2, 1.0);
    evaluation.add(at_angles({0, 90}), 2);
    for (int i = 0; i < 10; ++i) evaluation.add(at_angles({180.0 - i, 1.0 + i}), 2);
    const Retrieval found = evaluation.finish(dp);
    EXPECT_LT(found.accuracy_at_10, 1.0);
    EXPECT_LT(found.mrr_at_10, found.accuracy_at_10 + 1e-12);
  });
}

TEST(RetrievalMetrics, EqualCandidatesCountAsFirst) {
  run_thread_ranks(1, [](Communicator& dp) {
    RetrievalEvaluation evaluation(2, 1.0);
    evaluation.add(at_angles({0, 5, 30, 5}), 2);
    EXPECT_EQ(evaluation.finish(dp).accuracy_at_1, 1.0);
  });
}

TEST(RetrievalMetrics, AreZeroWithoutSamples) {
  run_thread_ranks(2, [](Communicator& dp) {
    const Retrieval found = RetrievalEvaluation(2, 1.0).finish(dp);
    EXPECT_EQ(found.loss, 0.0);
    EXPECT_EQ(found.accuracy_at_1, 0.0);
  });
}

}  // namespace
}  // namespace tessera
