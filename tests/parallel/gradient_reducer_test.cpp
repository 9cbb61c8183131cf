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
    fill(parameter.grad(), static_cast<double>(++value * static_cast<float>(rank + 1)));
  }
}

class Buckets : public testing::TestWithParam<int64_t> {};

TEST_P(Buckets, SumOverDataRanksInAnyParameterOrder) {
  for (const int ranks : {1, 2, 4}) {
    run_thread_ranks(ranks, [](Communicator& dp) {
      ParameterStore store;
      declare_five(store, {.bucket_elements = GetParam()});
      const ParallelGroups groups = make_parallel_groups(dp);
      GradientReducer reducer(store, groups);
      for (int step = 0; step < 2; ++step) {  // a reducer is reused across steps
        fill_with_rank(store, dp.rank());
        for (const int i : {4, 2, 3, 1, 0}) reducer.add(store.parameters()[static_cast<size_t>(i)]);
        reducer.finalize();
        const int n = dp.size();
        const auto sum_of_ranks = static_cast<float>(n * (n + 1) / 2);
        float value = 0.0f;
        for (const Parameter& parameter : store.parameters()) {
          ++value;
          for (const float grad : parameter.grad().span<float>()) {
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
      const ParallelGroups groups = make_parallel_groups(dp, {.shards = GridShape::kAllReplicas});
      GradientReducer reducer(store, groups);
      for (int step = 0; step < 2; ++step) {
        fill_with_rank(store, dp.rank());
        for (const int i : {4, 2, 3, 1, 0}) reducer.add(store.parameters()[static_cast<size_t>(i)]);
        reducer.finalize();
        const int n = dp.size();
        float value = 0.0f;
        for (const Parameter& parameter : store.parameters()) {
          value += static_cast<float>(n * (n + 1) / 2);
          const Range own = store.owned_elements(parameter);
          const Tensor grads = parameter.grad().view({parameter.grad().numel()});
          for (const float grad : grads.slice(own.begin, own.end).span<float>()) {
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
      const ParallelGroups groups = make_parallel_groups(dp);
      GradientReducer reducer(store, groups);
      size_t cuts = 0;
      PassRecorder recorder([&] { ++cuts; });
      fill_with_rank(store, dp.rank());
      for (const int i : {4, 2, 3, 1, 0}) {
        reducer.add(store.parameters()[static_cast<size_t>(i)], &recorder);
      }
      reducer.forget();
      const std::vector<PassRecorder::Action> actions = recorder.take_actions();
      EXPECT_EQ(cuts, store.layout().buckets().size());
      EXPECT_EQ(actions.size(), cuts);
      EXPECT_EQ(store.parameters()[0].grad().span<float>()[0], static_cast<float>(dp.rank() + 1));
      const int n = dp.size();
      for (int step = 0; step < 2; ++step) {
        fill_with_rank(store, dp.rank());
        for (const PassRecorder::Action& start : actions) start();
        reducer.finalize();
        float value = 0.0f;
        for (const Parameter& parameter : store.parameters()) {
          value += static_cast<float>(n * (n + 1) / 2);
          for (const float grad : parameter.grad().span<float>()) {
            ASSERT_EQ(grad, value) << parameter.name;
          }
        }
      }
    });
  }
}

/// A rank's gradient of flat element i: 23 significant bits, of varying magnitude and sign.
float gradient_of(int rank, int64_t i) {
  const auto x = static_cast<float>((i * 7919 + rank * 104729) % 1000003 - 500000);
  return x * (i % 3 == 0 ? 1e-7f : 3e-3f);
}

float rounded(float x) { return static_cast<float>(bfloat16(x)); }

// Each rank rounds its gradients; host ranks sum them in rank order in fp32 and round the sum once.
TEST_P(Buckets, SumRoundedGradientsInBf16) {
  for (const int ranks : {2, 3, 4}) {
    for (const bool sharded : {false, true}) {
      run_thread_ranks(ranks, [&](Communicator& dp) {
        ParameterStore store;
        if (sharded) {
          declare_five(store, {dp.size(), dp.rank(), GetParam()});
        } else {
          declare_five(store, {.bucket_elements = GetParam()});
        }
        const ParallelGroups groups =
            make_parallel_groups(dp, {.shards = sharded ? GridShape::kAllReplicas : 1});
        GradientReducer reducer(store, groups, DType::bf16);
        EXPECT_EQ(reducer.copy_bytes(), static_cast<size_t>(2 * store.flat_size()));
        EXPECT_EQ(GradientReducer::copy_bytes(store, DType::bf16), reducer.copy_bytes());
        EXPECT_EQ(GradientReducer::copy_bytes(store, DType::f32), 0u);
        for (int step = 0; step < 2; ++step) {
          const std::span<float> grads = store.flat_grads().span<float>();
          for (size_t i = 0; i < grads.size(); ++i) {
            grads[i] = gradient_of(dp.rank() + step, static_cast<int64_t>(i));
          }
          for (const int i : {4, 2, 3, 1, 0}) {
            reducer.add(store.parameters()[static_cast<size_t>(i)]);
          }
          reducer.finalize();
          for (const FlatBucket& bucket : store.layout().buckets()) {
            const Range mine = sharded ? bucket.shard : bucket.elements;
            for (int64_t i = mine.begin; i < mine.end; ++i) {
              float sum = 0.0f;
              for (int rank = 0; rank < dp.size(); ++rank) {
                sum += rounded(gradient_of(rank + step, i));
              }
              ASSERT_EQ(grads[static_cast<size_t>(i)], rounded(sum)) << "element " << i;
            }
          }
        }
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, Buckets, testing::Values(1, 100, 1000));

TEST(GradientReducerTest, RefusesShardingThatDiffersFromDataRanks) {
  const auto self = make_self_communicator();
  ParameterStore store;
  declare_five(store, {2, 1});
  try {
    const ParallelGroups groups = make_parallel_groups(*self);
    const GradientReducer reducer(store, groups);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("optimizer shard 1 of 2"), std::string::npos)
        << error.what();
  }
}

TEST(GradientReducerTest, RefusesOtherTypes) {
  const auto self = make_self_communicator();
  ParameterStore store;
  declare_five(store);
  try {
    const ParallelGroups groups = make_parallel_groups(*self);
    const GradientReducer reducer(store, groups, DType::f64);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("in fp32 or bf16, not in fp64"), std::string::npos)
        << error.what();
  }
}

TEST(GradientReducerTest, ForgetsAPassThatFailedHalfway) {
  const auto self = make_self_communicator();
  ParameterStore store;
  declare_five(store);
  const ParallelGroups groups = make_parallel_groups(*self);
  GradientReducer reducer(store, groups);
  reducer.add(store.parameters()[1]);
  reducer.forget();
  for (const Parameter& parameter : store.parameters()) reducer.add(parameter);
  reducer.finalize();
}

TEST(GradientReducerTest, RefusesMissingOrRepeatedGradient) {
  const auto self = make_self_communicator();
  ParameterStore store;
  declare_five(store);
  const ParallelGroups groups = make_parallel_groups(*self);
  GradientReducer reducer(store, groups);
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
