#include "launch/data/sampling/sample_order.h"

#include <cmath>
#include <map>
#include <unordered_set>

#include "tests/launch/data/test_files.h"

namespace tessera {
namespace {

std::vector<int64_t> order_of(uint64_t seed, int64_t epoch, int64_t n) {
  std::vector<int64_t> order;
  for (int64_t i = 0; i < n; ++i) order.push_back(permuted(seed, epoch, n, i));
  return order;
}

TEST(SampleOrder, IsAPermutationForEveryN) {
  for (int64_t n = 1; n <= 300; ++n) {
    std::vector<bool> seen(static_cast<size_t>(n), false);
    for (const int64_t sample : order_of(7, n % 5, n)) {
      ASSERT_TRUE(0 <= sample && sample < n);
      ASSERT_FALSE(seen[static_cast<size_t>(sample)]) << "n = " << n;
      seen[static_cast<size_t>(sample)] = true;
    }
  }
}

TEST(SampleOrder, NeverRepeatsInLargeDomains) {
  for (const int64_t n : {(int64_t{1} << 20) + 1, (int64_t{1} << 32) - 1, (int64_t{1} << 32) + 1,
                          int64_t{3000000000}, std::numeric_limits<int64_t>::max()}) {
    std::unordered_set<int64_t> seen;
    constexpr int64_t kPlaces = 20000;
    for (int64_t i = 0; i < kPlaces; ++i) {
      const int64_t sample = permuted(3, 0, n, i % 2 == 0 ? i : n - i);
      ASSERT_TRUE(0 <= sample && sample < n);
      ASSERT_TRUE(seen.insert(sample).second) << "n = " << n;
    }
  }
}

TEST(SampleOrder, IsFixedForSavedRuns) {
  // Runs resumed with a later version must continue in the same order.
  EXPECT_EQ(order_of(1234, 0, 10), (std::vector<int64_t>{6, 9, 2, 4, 1, 3, 5, 8, 7, 0}));
  EXPECT_EQ(order_of(1234, 1, 10), (std::vector<int64_t>{0, 7, 6, 2, 9, 3, 4, 8, 1, 5}));
  EXPECT_EQ(permuted(1234, 2, 1000000007, 5), 287657675);
}

TEST(SampleOrder, DiffersBetweenSeedsAndEpochs) {
  // Two random orders of 1000 agree in about one place; 20 has a probability of 1e-18.
  const auto agreements = [](const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
    int count = 0;
    for (size_t i = 0; i < a.size(); ++i) count += a[i] == b[i];
    return count;
  };
  const std::vector<int64_t> order = order_of(0, 0, 1000);
  std::vector<int64_t> identity = order;
  std::sort(identity.begin(), identity.end());
  EXPECT_LT(agreements(order, identity), 20);
  for (int64_t other = 1; other < 50; ++other) {
    EXPECT_LT(agreements(order, order_of(static_cast<uint64_t>(other), 0, 1000)), 20);
    EXPECT_LT(agreements(order, order_of(0, other, 1000)), 20);
    EXPECT_LT(agreements(order_of(0, other, 1000), order_of(static_cast<uint64_t>(other), 0, 1000)),
              20);
  }
}

/// Chi-squared of counts against a uniform distribution.
double chi_squared(const std::vector<int>& counts) {
  double total = 0.0;
  for (const int count : counts) total += count;
  const double expected = total / static_cast<double>(counts.size());
  double sum = 0.0;
  for (const int count : counts) sum += (count - expected) * (count - expected) / expected;
  return sum;
}

/// Chi-squared with k degrees of freedom has mean k and deviation √(2k): allow six deviations.
double chi_squared_bound(size_t cells) {
  const double k = static_cast<double>(cells) - 1.0;
  return k + 6.0 * std::sqrt(2.0 * k);
}

TEST(SampleOrder, PlacesSamplesUniformly) {
  for (const int64_t n : {2, 5, 16, 50}) {
    std::vector<int> counts(static_cast<size_t>(n * n), 0);
    for (int64_t epoch = 0; epoch < 4000; ++epoch) {
      for (int64_t i = 0; i < n; ++i)
        ++counts[static_cast<size_t>(i * n + permuted(9, epoch, n, i))];
    }
    EXPECT_LT(chi_squared(counts), chi_squared_bound(counts.size())) << "n = " << n;
  }
}

TEST(SampleOrder, AllOrdersAreEquallyLikely) {
  std::map<std::vector<int64_t>, int> orders;
  for (int64_t epoch = 0; epoch < 24000; ++epoch) ++orders[order_of(5, epoch, 4)];
  std::vector<int> counts;
  counts.reserve(orders.size());
  for (const auto& [order, count] : orders) counts.push_back(count);
  ASSERT_EQ(counts.size(), 24u);
  EXPECT_LT(chi_squared(counts), chi_squared_bound(24));
}

TEST(SampleOrder, NeighborsGoToUnrelatedPlaces) {
  constexpr int64_t kN = 100003;
  constexpr int64_t kBins = 16;
  std::vector<int> counts(kBins * kBins, 0);
  int64_t before = permuted(1, 0, kN, 0);
  for (int64_t i = 1; i < kN; ++i) {
    const int64_t now = permuted(1, 0, kN, i);
    ++counts[static_cast<size_t>((before * kBins / kN) * kBins + now * kBins / kN)];
    before = now;
  }
  EXPECT_LT(chi_squared(counts), chi_squared_bound(counts.size()));
}

TEST(SampleAt, CrossesEpochs) {
  for (int64_t k = 0; k < 35; ++k) {
    EXPECT_EQ(sample_at(8, 10, k), permuted(8, k / 10, 10, k % 10));
  }
}

TEST(SampleOrder, RejectsInvalidPlaces) {
  EXPECT_TRUE(names_all(error_of([] { permuted(0, 1, 10, 11); }), {"position 11", "10 samples"}));
  EXPECT_THROW(permuted(0, 0, 10, -1), Error);
  EXPECT_THROW(permuted(0, 0, 0, 0), Error);
  EXPECT_THROW(permuted(0, -1, 10, 0), Error);
  EXPECT_THROW(sample_at(0, 0, 0), Error);
  EXPECT_THROW(sample_at(0, 10, -1), Error);
}

}  // namespace
}  // namespace tessera
