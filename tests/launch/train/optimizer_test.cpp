#include "launch/train/optimizer/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>

#include "core/checked.h"
#include "core/error.h"
#include "core/ops/block_codes.h"
#include "core/ops/elementwise.h"
#include "launch/checkpoint/model_state.h"
#include "launch/train/memory/memory_plan.h"
#include "launch/train/optimizer/moment_parts.h"
#include "models/model.h"
#include "parallel/communicators/thread/thread_communicator.h"
#include "tests/support/expect_error.h"
#include "tests/support/runs/device_ranks.h"
#include "tests/support/runs/shards.h"
#include "tests/support/runs/small_runs.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

OwnedTensor one() {
  OwnedTensor tensor({1}, DType::f32);
  fill(tensor.tensor, 1.0);
  return tensor;
}

TEST(OptimizerTest, DecaysOnlyMatrices) {
  ParameterStore store;
  store.declare({"matrix", {4, 4}, {}, Init::ones(), /*decay=*/true});
  store.declare({"bias", {4}, {}, Init::ones(), /*decay=*/false});
  store.declare({"norm", {4}, {}, Init::ones(), /*decay=*/false});
  store.allocate(kCpu, DType::f32, StoreFor::training);
  OptimizerState state(store);
  state.initialize(1);
  OptimizerSection settings;
  settings.weight_decay = 0.5;
  Optimizer optimizer(settings, state, test::one_rank());
  const OwnedTensor grad_scale = one();
  EXPECT_EQ(optimizer.num_ranges(), 2U) << "neighbors with the same decay form one range";
  optimizer.step(0, /*lr=*/0.1,
                 grad_scale.tensor);  // gradients are zero: only the decay moves a weight
  EXPECT_FLOAT_EQ(store.parameters()[0].value().span<float>()[7], 1.0f - 0.1f * 0.5f);
  EXPECT_EQ(store.parameters()[1].value().span<float>()[3], 1.0f);
  EXPECT_EQ(store.parameters()[2].value().span<float>()[3], 1.0f);
}

// Gradients are zero, so the decay shows each parameter's learning rate.
TEST(OptimizerTest, GroupsHaveLearningRatesOfTheirOwn) {
  ParameterStore store;
  const std::vector<std::pair<std::string, double>> kFactors = {{"embedding.word", 0.125},
                                                                {"blocks.0.mlp.up", 0.25},
                                                                {"blocks.0.mlp.down", 2.5},
                                                                {"blocks.1.mlp.up", 0.5},
                                                                {"blocks.1.mlp.down", 5.0},
                                                                {"decoder.blocks.0.mlp.up", 0.5},
                                                                {"head", 1.0}};
  for (const auto& [name, factor] : kFactors) {
    store.declare({name, {4, 4}, {}, Init::ones(), /*decay=*/true});
  }
  store.declare({"frozen", {4, 4}, {}, Init::ones(), /*decay=*/true});
  store.freeze([](const Parameter& parameter) { return parameter.name == "frozen"; });
  store.allocate(kCpu, DType::f32, StoreFor::training);
  OptimizerState state(store);
  state.initialize(1);
  OptimizerSection settings;
  settings.weight_decay = 1.0;
  settings.layer_lr_decay = 0.5;
  settings.lr_scales = {{"*.down", 3.0}, {"*s.[01].mlp.down", 10.0}};
  Optimizer optimizer(settings, state, test::one_rank());
  const OwnedTensor grad_scale = one();
  optimizer.step(0, /*lr=*/0.01, grad_scale.tensor);
  for (const auto& parameter : store.parameters()) {
    const double factor = parameter.frozen ? 0.0 : kFactors[parameter.index].second;
    EXPECT_FLOAT_EQ(parameter.value().span<float>()[7], static_cast<float>(1.0 - 0.01 * factor))
        << parameter.name;
  }
}

TEST(OptimizerTest, Bf16MastersKeepSmallUpdates) {
  ParameterStore store;
  store.declare({"weight", {64}, {}, Init::ones()});
  store.allocate(kCpu, DType::bf16, StoreFor::training);
  OptimizerState state(store);
  state.initialize(1);
  Optimizer optimizer({}, state, test::one_rank());
  const OwnedTensor grad_scale = one();
  const Parameter& weight = store.parameters()[0];
  for (int64_t step = 0; step < 100; ++step) {
    fill(weight.grad(), 1.0);
    optimizer.step(step, /*lr=*/1e-4, grad_scale.tensor);  // each update is far below bf16's 2⁻⁸
  }
  const float master = state.of(weight).master.span<float>()[0];
  EXPECT_NEAR(master, 1.0f - 100 * 1e-4f, 1e-5f);
  EXPECT_EQ(static_cast<float>(weight.value().span<bfloat16>()[0]),
            static_cast<float>(bfloat16(master)));
}

/// Two stochastically rounded parameters, of which this rank has all or a shard.
struct RoundedValues {
  explicit RoundedValues(const Shard& rows, const Shard& columns, int64_t padded_rows = 0) {
    store.declare({"rows", {6, 10}, rows, Init::normal(1.0f), /*decay=*/true, padded_rows});
    store.declare({"columns", {5, 12}, columns, Init::normal(1.0f), /*decay=*/true});
    store.allocate(kCpu, DType::bf16, StoreFor::training);
    state.emplace(store);
    state->initialize(1);
    OptimizerSection settings;
    settings.stochastic_rounding = true;
    optimizer.emplace(settings, *state, test::one_rank(), /*seed=*/5);
  }
  std::vector<float> values(size_t i) const {
    const Parameter& parameter = store.parameters()[i];
    std::vector<float> result;
    for (const bfloat16 x : parameter.real_part(parameter.value()).span<bfloat16>()) {
      result.push_back(static_cast<float>(x));
    }
    return result;
  }

  ParameterStore store;
  std::optional<OptimizerState> state;
  std::optional<Optimizer> optimizer;
};

TEST(OptimizerTest, StochasticRoundingMatchesOnShards) {
  const OwnedTensor grad_scale = one();
  RoundedValues whole({}, {});
  whole.optimizer->step(3, /*lr=*/0.1, grad_scale.tensor);
  int moved = 0;
  for (size_t i = 0; i < 60; ++i) {
    const float master = whole.state->of(whole.store.parameters()[0]).master.span<float>()[i];
    moved += whole.values(0)[i] != static_cast<float>(bfloat16(master)) ? 1 : 0;
  }
  EXPECT_GT(moved, 5) << "about a quarter of 60 values do not round to nearest";
  for (const Shard& rows : {Shard{0, {0, 4}}, Shard{0, {4, 6}}}) {
    for (const Shard& columns : {Shard{1, {0, 4}}, Shard{1, {5, 12}}}) {
      RoundedValues part(rows, columns, /*padded_rows=*/4);
      part.optimizer->step(3, /*lr=*/0.1, grad_scale.tensor);
      for (const size_t i : {0, 1}) {
        EXPECT_EQ(part.values(i), test::shard_of(whole.values(i), part.store.parameters()[i]));
      }
    }
  }
}

TEST(OptimizerTest, ReproducesRoundingOfStep) {
  const OwnedTensor grad_scale = one();
  RoundedValues run({}, {});
  run.optimizer->round_values(0);
  const std::vector<float> before = run.values(0);
  run.optimizer->step(0, /*lr=*/0.1, grad_scale.tensor);
  const std::vector<float> after = run.values(0);
  EXPECT_NE(after, before);
  run.optimizer->round_values(1);
  EXPECT_EQ(run.values(0), after);
  run.optimizer->round_values(2);
  EXPECT_NE(run.values(0), after) << "these belong to a different step";
}

/// Decodes 8-bit moments into fp32 ones.
void decode_moments(const OptimizerShard& from, const OptimizerShard& to) {
  if (!from.exp_avg_scales.defined()) {
    copy(from.exp_avg, to.exp_avg);
    return copy(from.exp_avg_sq, to.exp_avg_sq);
  }
  dequantize_blocks(from.exp_avg, from.exp_avg_scales, CodeMap::signed_numbers, to.exp_avg);
  dequantize_blocks(from.exp_avg_sq, from.exp_avg_sq_scales, CodeMap::unsigned_numbers,
                    to.exp_avg_sq);
}

// In several parts, the last of which ends within a block.
TEST(OptimizerTest, EightBitMomentsAreDecodedForAStepAndEncodedAgain) {
  const OwnedTensor grad_scale = one();
  ParameterStore coded, plain;
  OptimizerSection settings;
  settings.stochastic_rounding = true;
  for (ParameterStore* store : {&coded, &plain}) {
    store->declare({"large", {1100, 1001}, {}, Init::normal(1.0f), /*decay=*/true});
    store->declare({"small", {1001}, {}, Init::ones()});
    store->allocate(kCpu, DType::bf16, StoreFor::training);
  }
  OptimizerState codes_of(coded, {.moments = DType::u8}), numbers_of(plain);
  codes_of.initialize(1);
  numbers_of.initialize(1);
  Optimizer of_coded(settings, codes_of, test::one_rank(), /*seed=*/5),
      of_plain(settings, numbers_of, test::one_rank(), /*seed=*/5);
  Arena scratch(kCpu, 2 * kMomentPart * sizeof(float));
  test::expect_error([&] { of_coded.step(0, 0.1, grad_scale.tensor); }, {"8-bit", "scratch"});
  for (int64_t step = 0; step < 3; ++step) {
    for (size_t i = 0; i < 2; ++i) {
      const Parameter &a = coded.parameters()[i], &b = plain.parameters()[i];
      decode_moments(codes_of.of(a), numbers_of.of(b));
      for (const Parameter* p : {&a, &b}) {
        auto next = static_cast<float>(step);
        for (float& x : p->grad().span<float>()) x = std::sin(next += 0.7f);
      }
    }
    of_coded.step(step, 0.1, grad_scale.tensor, &scratch);
    of_plain.step(step, 0.1, grad_scale.tensor);
    EXPECT_EQ(scratch.used(), 0u);
    for (size_t i = 0; i < 2; ++i) {
      const Parameter &a = coded.parameters()[i], &b = plain.parameters()[i];
      const OptimizerShard &of_a = codes_of.of(a), &of_b = numbers_of.of(b);
      test::expect_same_bits(of_a.master, of_b.master, "master");
      test::expect_same_bits(a.value(), b.value(), "value");
      const Tensor& moment = of_b.exp_avg_sq;
      const OwnedTensor found(moment.shape(), DType::f32), unused(moment.shape(), DType::f32);
      OptimizerShard decoded;
      decoded.exp_avg = unused.tensor;
      decoded.exp_avg_sq = found.tensor;
      decode_moments(of_a, decoded);
      const OwnedTensor codes(moment.shape(), DType::u8),
          scales({ceil_div(moment.numel(), kCodeBlock)}, DType::f32);
      if (of_a.exp_avg_scales.defined()) {
        quantize_blocks(moment, CodeMap::unsigned_numbers, codes.tensor, scales.tensor);
        dequantize_blocks(codes.tensor, scales.tensor, CodeMap::unsigned_numbers, moment);
      }
      EXPECT_EQ(of_a.exp_avg_scales.defined(), i == 0);
      test::expect_same_bits(found.tensor, moment, "second moment");
    }
  }
}

void declare_four(ParameterStore& store) {
  const Init normal = Init::normal(1.0f);
  store.declare({"table", {50, 33}, {}, normal, /*decay=*/true});
  store.declare({"bias", {33}, {}, normal, /*decay=*/false});
  store.declare({"matrix", {7, 33}, {}, normal, /*decay=*/true});
  store.declare({"norm", {33}, {}, Init::ones(), /*decay=*/false});
}

void fill_gradients(ParameterStore& store, int64_t step) {
  auto next = static_cast<float>(step);
  for (Parameter& parameter : store.parameters()) {
    for (float& x : parameter.grad().span<float>()) x = std::sin(next += 0.7f);
  }
}

class ShardedOptimizer : public testing::TestWithParam<std::tuple<int, int64_t, DType>> {};

TEST_P(ShardedOptimizer, MatchesUnshardedBitForBit) {
  const auto [owners, bucket, precision] = GetParam();
  constexpr int64_t kSteps = 3;
  ParameterStore whole;
  declare_four(whole);
  whole.allocate(kCpu, precision, StoreFor::training);
  OptimizerState of_whole(whole);
  of_whole.initialize(1);
  Optimizer alone({}, of_whole, test::one_rank());
  for (int64_t step = 0; step < kSteps; ++step) {
    fill_gradients(whole, step);
    alone.step(step, 0.1, one().tensor);
  }
  run_thread_ranks(owners, [&](Communicator& world) {
    const ParallelGroups groups = make_parallel_groups(world, {.shards = GridShape::kAllReplicas});
    ParameterStore store;
    declare_four(store);
    store.allocate(kCpu, precision, StoreFor::training, {world.size(), world.rank(), bucket});
    OptimizerState state(store);
    state.initialize(1);
    Optimizer optimizer({}, state, groups);
    for (int64_t step = 0; step < kSteps; ++step) {
      fill_gradients(store, step);
      optimizer.step(step, 0.1, one().tensor);
    }
    for (size_t i = 0; i < store.parameters().size(); ++i) {
      const Parameter &mine = store.parameters()[i], &all = whole.parameters()[i];
      test::expect_same_bits(mine.value(), all.value(), "value");
      const OptimizerShard &own = state.of(mine), &whole_run = of_whole.of(all);
      const auto part = [&](const Tensor& run) {
        return run.slice(own.elements.begin, own.elements.end);
      };
      test::expect_same_bits(own.master, part(whole_run.master), "master");
      test::expect_same_bits(own.exp_avg, part(whole_run.exp_avg), "exp_avg");
      test::expect_same_bits(own.exp_avg_sq, part(whole_run.exp_avg_sq), "exp_avg_sq");
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Cuts, ShardedOptimizer,
                         testing::Combine(testing::Values(1, 2, 3, 4),
                                          testing::Values<int64_t>(1, 300, 100000),
                                          testing::Values(DType::f32, DType::bf16)));

TEST(OptimizerTest, OwnersRoundToSameBits) {
  OptimizerSection settings;
  settings.stochastic_rounding = true;
  ParameterStore whole;
  declare_four(whole);
  whole.allocate(kCpu, DType::bf16, StoreFor::training);
  OptimizerState of_whole(whole);
  of_whole.initialize(1);
  Optimizer alone(settings, of_whole, test::one_rank(), /*seed=*/5);
  fill_gradients(whole, 0);
  alone.step(0, 0.1, one().tensor);
  run_thread_ranks(3, [&](Communicator& world) {
    const ParallelGroups groups = make_parallel_groups(world, {.shards = GridShape::kAllReplicas});
    ParameterStore store;
    declare_four(store);
    store.allocate(kCpu, DType::bf16, StoreFor::training, {world.size(), world.rank(), 300});
    OptimizerState state(store);
    state.initialize(1);
    Optimizer optimizer(settings, state, groups, /*seed=*/5);
    fill_gradients(store, 0);
    optimizer.step(0, 0.1, one().tensor);
    const auto expect_same = [&] {
      for (size_t i = 0; i < store.parameters().size(); ++i) {
        test::expect_same_bits(store.parameters()[i].value(), whole.parameters()[i].value(),
                               "value");
      }
    };
    expect_same();
    fill(store.flat_values(), 0.0);
    optimizer.round_values(1);
    expect_same();
  });
}

TEST(OptimizerTest, ShardsMustBeThoseOfTheGroups) {
  ParameterStore store;
  declare_four(store);
  store.allocate(kCpu, DType::f32, StoreFor::training, {2, 0});
  OptimizerState state(store);
  EXPECT_THROW(Optimizer({}, state, test::one_rank()), Error);
}

TEST(ModelState, NamesNonFiniteWeight) {
  ParameterStore store;
  store.declare({"good", {64}, {}, Init::ones()});
  store.declare({"bad", {64}, {}, Init::ones()});
  store.allocate(kCpu, DType::f32, StoreFor::training);
  OptimizerState state(store);
  state.initialize(1);
  EXPECT_EQ(not_finite_parameter(state), std::nullopt);
  state.of(store.parameters()[1]).master.span<float>()[63] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(not_finite_parameter(state), "bad");
}

TEST(MemoryPlanTest, CountsParametersOfGpt2) {
  const auto self = make_self_communicator();
  RunConfig config;
  config.model = test::gpt2_model();
  config.run.precision = DType::bf16;
  config.batch = {1, 1};
  const MemoryPlan plan = plan_memory(config, make_parallel_groups(*self));
  EXPECT_EQ(plan.global_parameters, 124'439'808);  // as Hugging Face counts GPT-2
  EXPECT_EQ(plan.local_parameters, plan.global_parameters);
  EXPECT_GT(plan.arena_bytes, 0U);
}

}  // namespace
}  // namespace tessera
