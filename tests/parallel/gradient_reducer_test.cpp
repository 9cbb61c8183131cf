#include "parallel/gradient_reducer.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/ops/elementwise.h"
#include "parallel/thread_communicator.h"

namespace tessera {
namespace {

/// Five parameters of 40 elements each.
void declare_five(ParameterStore& store) {
  for (int i = 0; i < 5; ++i) store.declare({fmt::format("p{}", i), {5, 8}});
  store.allocate(kCpu, DType::f32, StoreFor::training);
}

void fill_with_rank(ParameterStore& store, int rank) {
  float value = 0.0f;
  for (Parameter& parameter : store.parameters()) {
    fill(parameter.grad, static_cast<double>(++value * static_cast<float>(rank + 1)));
  }
}

class Buckets : public testing::TestWithParam<int64_t> {};

TEST_P(Buckets, SumOverTheDataRanksInAnyOrderOfParameters) {
  for (const int ranks : {1, 2, 4}) {
    run_thread_ranks(ranks, [](Communicator& dp) {
      ParameterStore store;
      declare_five(store);
      GradientReducer reducer(store, dp, GetParam());
      for (int step = 0; step < 2; ++step) {  // a reducer serves many steps
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

INSTANTIATE_TEST_SUITE_P(Sizes, Buckets, testing::Values(1, 100, 1000));

TEST(GradientReducerTest, SmallBucketsAreJoinedUpToTheirSize) {
  const auto self = make_self_communicator();
  ParameterStore store;
  declare_five(store);  // 64 elements each with alignment
  EXPECT_EQ(GradientReducer(store, *self, 1).num_buckets(), 5U);
  EXPECT_EQ(GradientReducer(store, *self, 128).num_buckets(), 3U);
  EXPECT_EQ(GradientReducer(store, *self, 1000).num_buckets(), 1U);
}

TEST(GradientReducerTest, AForgottenOrRepeatedGradientIsNamed) {
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
