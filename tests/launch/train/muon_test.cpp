#include "launch/train/optimizer/muon.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "core/ops/elementwise.h"
#include "launch/train/optimizer/optimizer.h"
#include "launch/train/optimizer/weight_parts.h"
#include "parallel/communicators/thread/thread_communicator.h"
#include "parallel/layers/partition.h"
#include "parallel/process_grid.h"
#include "tests/support/expect_error.h"
#include "tests/support/reference.h"
#include "tests/support/runs/device_ranks.h"
#include "tests/support/runs/shards.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using test::reference::Doubles;

constexpr int64_t kWidth = 12, kGroups = 3, kDim = 2;

OptimizerSection muon_settings() {
  OptimizerSection settings;
  settings.name = OptimizerName::muon;
  return settings;
}

/// Weights of each kind of sharding, on tensor rank `rank` of `ranks`.
void declare_weights(ParameterStore& store, int ranks, int rank) {
  const auto declare = [&](const char* name, const Shape& shape, int dim,
                           const WeightMatrices& matrices) {
    ParameterSpec spec{name, shape, {}, Init::normal(1.0f), /*decay=*/true};
    spec.matrices = matrices;
    if (dim >= 0 && ranks > 1) {
      const auto range_of = [&](int i) {
        const Range units = split_range(shape[dim] / matrices.unit, ranks, i);
        return Range{units.begin * matrices.unit, units.end * matrices.unit};
      };
      spec.shard = {dim, range_of(rank)};
      spec.slot_extent = range_of(0).size();
    }
    store.declare(spec);
  };
  store.declare({"embedding", {16, kWidth}, {}, Init::normal(1.0f), /*decay=*/true});
  // Groups of two queries, a key and a value.
  declare("qkv", {kGroups * 4 * kDim, kWidth}, 0, {4 * kDim, {2 * kDim, kDim, kDim}});
  declare("output", {kWidth, kGroups * 2 * kDim}, 1, {2 * kDim});
  declare("gate_up", {2, 10, kWidth}, 1, {1});
  declare("lora_a", {3, kWidth}, -1, {});
  store.declare({"bias", {kWidth}, {}, Init::normal(1.0f)});
}

void fill_gradients(ParameterStore& store, int64_t step) {
  for (Parameter& parameter : store.parameters()) {
    const GlobalIndex index = parameter.global_index();
    const auto grads = parameter.grad().span<float>();
    for (size_t i = 0; i < grads.size(); ++i) {
      const auto at = static_cast<double>(index(static_cast<int64_t>(i)));
      grads[i] = static_cast<float>(
          std::sin(0.7 * at * at + static_cast<double>(parameter.index) + 3.0 * double(step)));
    }
  }
}

OptimizerState train(ParameterStore& store, const ParallelGroups& groups, DType precision,
                     const OptimizerSection& settings) {
  declare_weights(store, groups.tp->size(), groups.tp->rank());
  store.allocate(kCpu, precision, StoreFor::training,
                 {groups.shards->size(), groups.shards->rank(), /*bucket_elements=*/200});
  OptimizerState state(store, state_spec(settings));
  state.initialize(1);
  Optimizer optimizer(settings, state, groups, /*seed=*/5);
  Arena arena(kCpu, size_t{1} << 20);
  const OwnedTensor one({1}, DType::f32);
  fill(one.tensor, 1.0);
  for (int64_t step = 0; step < 3; ++step) {
    fill_gradients(store, step);
    optimizer.step(step, 0.1, one.tensor, &arena);
  }
  return state;
}

struct MuonLayout {
  int tensor, data;
  bool zero;
};

class MuonOnLayouts : public testing::TestWithParam<MuonLayout> {};

// Elements are treated alike, and each matrix is computed whole on one rank.
TEST_P(MuonOnLayouts, MatchesOneRankBitForBit) {
  const auto [tensor, data, zero] = GetParam();
  for (const DType precision : {DType::f32, DType::bf16}) {
    OptimizerSection settings = muon_settings();
    settings.stochastic_rounding = precision == DType::bf16;
    settings.moment_dtype = precision;
    ParameterStore whole;
    const OptimizerState of_whole = train(whole, test::one_rank(), precision, settings);
    run_thread_ranks(tensor * data, [&](Communicator& world) {
      const ParallelGroups groups =
          make_parallel_groups(world, {.tensor = tensor, .shards = zero ? 0 : 1});
      ParameterStore store;
      const OptimizerState state = train(store, groups, precision, settings);
      for (size_t i = 0; i < store.parameters().size(); ++i) {
        const Parameter &mine = store.parameters()[i], &all = whole.parameters()[i];
        const auto shard = [&](const Tensor& t) {
          const std::vector<double> values = test::to_doubles(t);
          return test::shard_of(std::vector<float>(values.begin(), values.end()), mine);
        };
        const auto expect_own = [&](const Tensor& actual, const Tensor& expected) {
          const std::vector<float> expected_shard = shard(expected);
          const std::vector<double> values = test::to_doubles(actual);
          const Range own = state.of(mine).elements;
          for (int64_t j = 0; j < own.size(); ++j) {
            ASSERT_EQ(static_cast<float>(values[static_cast<size_t>(j)]),
                      expected_shard[static_cast<size_t>(own.begin + j)])
                << mine.name << " " << j;
          }
        };
        expect_own(state.of(mine).master, of_whole.of(all).master);
        expect_own(state.of(mine).exp_avg, of_whole.of(all).exp_avg);
        std::vector<float> values;
        for (const double x : test::to_doubles(mine.value())) {
          values.push_back(static_cast<float>(x));
        }
        EXPECT_EQ(values, shard(all.value())) << mine.name;
        EXPECT_EQ(state.of(mine).exp_avg_sq.defined(), !mine.matrices.has_value());
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(All, MuonOnLayouts,
                         testing::Values(MuonLayout{1, 2, false}, MuonLayout{1, 3, true},
                                         MuonLayout{2, 1, false}, MuonLayout{4, 1, false},
                                         MuonLayout{2, 2, true}, MuonLayout{2, 2, false},
                                         MuonLayout{3, 2, true}, MuonLayout{4, 2, true}),
                         [](const auto& instance) {
                           const MuonLayout& layout = instance.param;
                           return fmt::format("tensor{}_data{}_zero{}", layout.tensor, layout.data,
                                              layout.zero ? 1 : 0);
                         });

/// Rows of a matrix, in this order.
Doubles rows_of_matrix(const Doubles& x, const std::vector<size_t>& rows) {
  Doubles result;
  for (const size_t row : rows) {
    const auto begin = x.begin() + static_cast<int64_t>(row) * kWidth;
    result.insert(result.end(), begin, begin + kWidth);
  }
  return result;
}

// One step, from momentum zero: 1 + momentum times the gradient's direction.
TEST(Muon, OrthogonalizesQueriesKeysAndValuesAlone) {
  ParameterStore store;
  declare_weights(store, 1, 0);
  store.allocate(kCpu, DType::f32, StoreFor::training);
  OptimizerState state(store);
  state.initialize(1);
  OptimizerSection settings = muon_settings();
  settings.weight_decay = 0.5;
  settings.lr_scales = {{"qkv", 0.5}};
  Optimizer optimizer(settings, state, test::one_rank());
  const Parameter& qkv = store.parameters()[1];
  ASSERT_EQ(qkv.name, "qkv");
  fill_gradients(store, 0);
  const Doubles before = test::to_doubles(qkv.value()), grad = test::to_doubles(qkv.grad());
  Arena arena(kCpu, size_t{1} << 20);
  const OwnedTensor one({1}, DType::f32);
  fill(one.tensor, 1.0);
  optimizer.step(0, 0.1, one.tensor, &arena);
  const Doubles after = test::to_doubles(qkv.value());
  // Each group has 4 rows of queries, 2 of a key and 2 of a value.
  const std::vector<std::vector<size_t>> matrices = {
      {0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19}, {4, 5, 12, 13, 20, 21}, {6, 7, 14, 15, 22, 23}};
  for (const std::vector<size_t>& rows : matrices) {
    const auto count = static_cast<int64_t>(rows.size());
    const Doubles update =
        test::reference::orthogonalized(rows_of_matrix(grad, rows), count, kWidth, 5);
    Doubles expected = rows_of_matrix(before, rows);
    for (size_t i = 0; i < expected.size(); ++i) {
      expected[i] -= 0.05 * (0.5 * expected[i] + 0.2 * std::sqrt(12.0) * update[i]);
    }
    test::expect_close(rows_of_matrix(after, rows), expected, 1e-5, "weights");
  }
}

TEST(Muon, NeedsScratchMemoryAndRightUnits) {
  ParameterStore store;
  declare_weights(store, 1, 0);
  store.allocate(kCpu, DType::f32, StoreFor::training);
  OptimizerState state(store);
  Optimizer optimizer(muon_settings(), state, test::one_rank());
  const OwnedTensor one({1}, DType::f32);
  test::expect_error([&] { optimizer.step(0, 0.1, one.tensor); }, {"Muon needs scratch memory"});
  ParameterStore wrong;
  ParameterSpec spec{"qkv", {24, kWidth}, {}, Init::zeros(), /*decay=*/true};
  spec.matrices = WeightMatrices{8, {4, 2}};
  test::expect_error([&] { matrices_of(wrong.declare(spec)); }, {"qkv", "unit of 8 rows have 6"});
}

}  // namespace
}  // namespace tessera
