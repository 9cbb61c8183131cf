#include "parallel/gradient_reducer.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/ops/elementwise.h"
#include "parallel/communicators/thread/thread_communicator.h"

namespace tessera {
namespace {

/// Five parameters of 40 elements each.
void declare_five(ParameterStore& store, const OptimizerSharding& sharding = {}) {
  for (int i = 0; i < 5; ++i) store.declare({fmt::format("p{}", i), {5, 8}});
  store.allocate(kCpu, DType::f32, StoreFor::training, sharding);
}

void fill_with_rank(ParameterStore& store, int rank) {
  float value = 0.0f;
  for (Parameter& parameter : store.parameters()) {
    fill(parameter.grad, static_cast<double>(++value * static_cast<float>(rank + 1)));
  }
}

class Buckets : public testing::TestWithParam<int64_t> {};

TEST_P(Buckets, SumOverDataRanksInAnyParameterOrder) {
  for (const int ranks : {1, 2, 4}) {
    run_thread_ranks(ranks, [](Communicator& dp) {
      ParameterStore store;
      declare_five(store, {.bucket_elements = GetParam()});
      GradientReducer reducer(store, dp);
      for (int step = 0; step < 2; ++step) {  // a reducer is reused across steps
        fill_with_rank(store, dp.rank());
        for (const int i : {4, 2, 3, 1, 0}) reducer.add(store.parameters()[static_cast<size_t>(i)]);
        reducer.finalize();
        const int n = dp.size();
        const auto sum_of_ranks = static_cast<float>(n * (n + 1) / 2);
        float value = 0.0f;
        for (const Parameter& parameter : store.parameters()) {
          ++value;
          for (const float grad : parameter.grad.span<float>()) {
            ASSERT_EQ(grad, value * sum_of_ranks) << parameter.name;
          }
        }
      }
    });
  }
}

TEST_P(Buckets, OwnersReceiveTheirSums) {
  for (const int ranks : {1, 2, 3, 4}) {
    run_thread_ranks(ranks, [](Communicator& dp) {
      ParameterStore store;
      declare_five(store, {dp.size(), dp.rank(), GetParam()});
      GradientReducer reducer(store, dp);
      for (int step = 0; step < 2; ++step) {
        fill_with_rank(store, dp.rank());
        for (const int i : {4, 2, 3, 1, 0}) reducer.add(store.parameters()[static_cast<size_t>(i)]);
        reducer.finalize();
        const int n = dp.size();
        float value = 0.0f;
        for (const Parameter& parameter : store.parameters()) {
          value += static_cast<float>(n * (n + 1) / 2);
          for (const float grad : parameter.optimizer_shard.grad.span<float>()) {
            ASSERT_EQ(grad, value) << parameter.name;
          }
        }
      }
    });
  }
}

TEST_P(Buckets, StartInRecordedOrder) {
  for (const int ranks : {1, 2, 4}) {
    run_thread_ranks(ranks, [](Communicator& dp) {
      ParameterStore store;
      declare_five(store, {.bucket_elements = GetParam()});
      GradientReducer reducer(store, dp);
      std::vector<size_t> order;
      fill_with_rank(store, dp.rank());
      reducer.record(
          [&] {
            for (const int i : {4, 2, 3, 1, 0}) {
              reducer.add(store.parameters()[static_cast<size_t>(i)]);
            }
          },
          [&](size_t bucket) { order.push_back(bucket); });
      EXPECT_EQ(order.size(), store.layout().buckets().size());
      EXPECT_EQ(store.parameters()[0].grad.span<float>()[0], static_cast<float>(dp.rank() + 1));
      const int n = dp.size();
      for (int step = 0; step < 2; ++step) {
        fill_with_rank(store, dp.rank());
        for (const size_t bucket : order) reducer.start(bucket);
        reducer.finalize();
        float value = 0.0f;
        for (const Parameter& parameter : store.parameters()) {
          value += static_cast<float>(n * (n + 1) / 2);
          for (const float grad : parameter.grad.span<float>()) {
            ASSERT_EQ(grad, value) << parameter.name;
          }
        }
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, Buckets, testing::Values(1, 100, 1000));

TEST(GradientReducerTest, RefusesShardingThatDiffersFromDataRanks) {
  const auto self = make_self_communicator();
  ParameterStore store;
  declare_five(store, {2, 1});
  try {
    const GradientReducer reducer(store, *self);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("optimizer shard 1 of 2"), std::string::npos)
        << error.what();
  }
}

TEST(GradientReducerTest, FailedRecordingLeavesNoState) {
  const auto self = make_self_communicator();
  ParameterStore store;
  declare_five(store);
  GradientReducer reducer(store, *self);
  const auto fails = [&] {
    reducer.add(store.parameters()[1]);
    fail("halfway");
  };
  EXPECT_THROW(reducer.record(fails, [](size_t) {}), Error);
  for (const Parameter& parameter : store.parameters()) reducer.add(parameter);
  reducer.finalize();
}

TEST(GradientReducerTest, RefusesMissingOrRepeatedGradient) {
  const auto self = make_self_communicator();
  ParameterStore store;
  declare_five(store);
  GradientReducer reducer(store, *self);
  reducer.add(store.parameters()[1]);
  EXPECT_THROW(reducer.add(store.parameters()[1]), Error);
  try {
    reducer.finalize();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("p0"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tessera
