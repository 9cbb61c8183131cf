#include "launch/data/sampling/blended_dataset.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <set>

#include "tests/launch/data/test_files.h"
#include "tests/support/expect_error.h"

namespace tessera {
namespace {

using test::expect_error;

const std::vector<std::vector<double>> kWeights = {{1.0},
                                                   {0.7, 0.3},
                                                   {1.0, 1.0, 1.0},
                                                   {1e-9, 1e9},
                                                   {1e-3, 1.0, 5.0, 0.5, 0.1, 20.0},
                                                   {3.0, 1.0, 4.0, 1.0, 5.0}};

double sum_of(const std::vector<double>& weights) {
  return std::accumulate(weights.begin(), weights.end(), 0.0);
}

TEST(BlendOrder, EveryPrefixHasItsShares) {
  for (const std::vector<double>& weights : kWeights) {
    const BlendOrder order(weights);
    const double bound = 0.5 * std::ceil(std::log2(static_cast<double>(weights.size())));
    std::vector<int64_t> counts(weights.size(), 0);
    for (int64_t place = 0; place < 20000; ++place) {
      const BlendOrder::Turn turn = order.at(place);
      ASSERT_EQ(turn.number, counts[turn.part]++) << "a part's turns are numbered one by one";
      if (place % 100 == 7) {
        ASSERT_EQ(order.turns(place + 1), counts);
      }
      for (size_t part = 0; part < weights.size(); ++part) {
        const double share = weights[part] / sum_of(weights) * static_cast<double>(place + 1);
        ASSERT_LE(std::abs(static_cast<double>(counts[part]) - share), bound + 1e-6)
            << "part " << part << " of " << weights.size() << " before place " << place + 1;
      }
    }
  }
}

TEST(BlendOrder, SharesHoldAtHugePlaces) {
  const BlendOrder order(std::vector{1.0, 2.0, 4.0});
  for (const int64_t place : {int64_t{1} << 40, int64_t{1} << 52, (int64_t{1} << 60) + 1}) {
    const BlendOrder::Turn turn = order.at(place);
    const double expected = order.share(turn.part) * static_cast<double>(place);
    // As close as doubles allow.
    EXPECT_NEAR(static_cast<double>(turn.number), expected, 2.0 + expected * 0x1p-50);
  }
  EXPECT_DOUBLE_EQ(order.share(2), 4.0 / 7.0);
}

TEST(BlendOrder, IsFixedForSavedRuns) {
  const BlendOrder order(std::vector{0.5, 0.3, 0.2});
  std::vector<size_t> turns;
  for (int64_t place = 0; place < 10; ++place) turns.push_back(order.at(place).part);
  EXPECT_EQ(turns, (std::vector<size_t>{0, 1, 0, 2, 0, 1, 0, 2, 0, 1}));
}

TEST(BlendOrder, RejectsInvalidWeights) {
  for (const double weight : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    expect_error([&] { BlendOrder(std::vector{1.0, weight}); }, {"must be a positive finite"});
  }
  expect_error([] { BlendOrder(std::vector<double>{}); }, {"at least one part"});
  expect_error([] { BlendOrder(std::vector{1.0}).at(-1); }, {"no place -1"});
}

/// Sample i in epoch e of dataset `name` consists of these three numbers.
class NamedDataset final : public Dataset {
 public:
  NamedDataset(int32_t name, int64_t num_samples, int64_t length = 3)
      : name_(name), num_samples_(num_samples), length_(length) {}

  int64_t num_samples() const override { return num_samples_; }
  int64_t seq_length() const override { return length_; }
  void fill(int64_t sample, int64_t epoch, Sample& out) const override {
    out.clear();
    out.tokens = {name_, static_cast<int32_t>(sample), static_cast<int32_t>(epoch)};
  }

 private:
  int32_t name_;
  int64_t num_samples_;
  int64_t length_;
};

BlendedDataset::Part part(int32_t name, int64_t samples, double weight,
                          std::optional<uint64_t> seed) {
  return {std::make_shared<const NamedDataset>(name, samples), weight, seed};
}

std::vector<int32_t> sample_of(const BlendedDataset& blend, int64_t sample, int64_t epoch) {
  Sample out;
  blend.fill(sample, epoch, out);
  return out.tokens;
}

TEST(BlendedDataset, SeesEachPartCompletelyBeforeRepeating) {
  const BlendedDataset blend({part(0, 5, 3.0, 1), part(1, 70, 1.0, 2), part(2, 1, 0.5, 3)});
  ASSERT_EQ(blend.num_samples(), 76);
  EXPECT_TRUE(blend.has_order());
  std::map<int32_t, std::vector<std::vector<int32_t>>> seen;
  for (int64_t epoch = 0; epoch < 9; ++epoch) {
    for (int64_t i = 0; i < blend.num_samples(); ++i) {
      const std::vector<int32_t> sample = sample_of(blend, i, epoch);
      seen[sample[0]].push_back(sample);
    }
  }
  const std::map<int32_t, size_t> sizes = {{0, 5}, {1, 70}, {2, 1}};
  std::set<std::vector<int32_t>> orders;
  for (const auto& [name, samples] : seen) {
    const size_t size = sizes.at(name);
    for (size_t begin = 0; begin + size <= samples.size(); begin += size) {
      std::vector<int32_t> epoch;
      for (size_t i = begin; i < begin + size; ++i) {
        EXPECT_EQ(samples[i][2], static_cast<int32_t>(begin / size)) << "the part's own epoch";
        epoch.push_back(samples[i][1]);
      }
      if (name == 1) orders.insert(epoch);
      std::ranges::sort(epoch);
      std::vector<int32_t> all(size);
      std::iota(all.begin(), all.end(), 0);
      EXPECT_EQ(epoch, all);
    }
  }
  EXPECT_GE(orders.size(), 2u) << "every epoch has its own order";
}

TEST(BlendedDataset, UsesNaturalOrderWithoutSeed) {
  const BlendedDataset blend({part(0, 2, 1.0, {}), part(1, 6, 1.0, {})});
  std::vector<std::vector<int32_t>> samples;
  for (int64_t i = 0; i < blend.num_samples(); ++i) samples.push_back(sample_of(blend, i, 0));
  EXPECT_EQ(
      samples,
      (std::vector<std::vector<int32_t>>{
          {0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {1, 1, 0}, {0, 0, 1}, {1, 2, 0}, {0, 1, 1}, {1, 3, 0}}));
  EXPECT_EQ(sample_of(blend, 0, 1), (std::vector<int32_t>{0, 0, 2}));
}

TEST(BlendedDataset, RejectsInvalidParts) {
  expect_error(
      [] {
        BlendedDataset({part(0, 2, 1.0, {}),
                        {std::make_shared<const NamedDataset>(1, 2, 4), 1.0, std::nullopt}});
      },
      {"samples of 3 and of 4 tokens cannot be blended"});
  expect_error([] { BlendedDataset({part(0, 0, 1.0, {})}); }, {"without samples"});
  expect_error(
      [] {
        BlendedDataset({part(0, INT64_MAX, 1.0, {}), part(1, 1, 1.0, {})});
      },
      {"more than 2^63 - 1 samples"});
  const BlendedDataset blend({part(0, 2, 1.0, {}), part(1, 3, 1.0, {})});
  expect_error([&] { sample_of(blend, 5, 0); }, {"a blend of 5 samples has no sample 5"});
  expect_error([&] { sample_of(blend, -1, 0); }, {"no sample -1"});
  expect_error([&] { sample_of(blend, 0, INT64_MAX); }, {"no sample 0 in epoch"});
}

}  // namespace
}  // namespace tessera
