#include "models/transformer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>

#include "core/arena.h"
#include "core/trace/work_log.h"
#include "models/architecture.h"
#include "tests/support/expect_error.h"
#include "tests/support/runs/device_ranks.h"
#include "tests/support/runs/shards.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

constexpr int64_t kBatch = 2, kLength = 12, kHeads = 4, kWidth = 32;

ModelConfig small_config() {
  ModelConfig config = preset(ModelKind::bert);
  config.num_layers = 2;
  config.hidden_size = kWidth;
  config.num_heads = kHeads;
  config.seq_length = kLength;
  config.dropout = 0.0;
  config.attention_dropout = 0.0;
  config.init_stddev = 0.2;
  return config;
}

/// Hides about every third pair, depending on the seed.
test::TestTensor some_hidden(const Shape& shape, uint64_t seed) {
  test::TestTensor hidden(shape, DType::u8);
  const test::TestTensor numbers = test::random_ints({shape.numel()}, 0, 3, seed);
  for (int64_t i = 0; i < shape.numel(); ++i) {
    hidden.tensor.data<uint8_t>()[i] = numbers.tensor.data<int32_t>()[i] == 0 ? 1 : 0;
  }
  return hidden;
}

/// Score biases, some of them −inf.
test::TestTensor some_additive(const Shape& shape, uint64_t seed) {
  test::TestTensor additive = test::random_tensor(shape, DType::f32, seed);
  for (float& x : additive.tensor.span<float>()) {
    if (x > 1.0f) x = -std::numeric_limits<float>::infinity();
  }
  return additive;
}

/// The results of one pass on one rank.
struct Pass {
  std::vector<double> y, dx;
  std::map<std::string, std::vector<double>> gradients;  ///< whole tensors, from a single rank
};

/// Runs a forward and a backward pass; `compare(y, dx, store)` checks the results.
template <typename Compare>
void run_pass(Communicator& tp, const AttentionMask& mask, Compare&& compare) {
  ParameterStore store;
  Transformer transformer(store, small_config(), tp);
  store.allocate(test::test_device(), DType::f32, StoreFor::training);
  store.initialize(3);
  Arena arena(test::test_device(), size_t{8} << 20);
  const StepContext ctx{arena};
  const test::TestTensor x = test::random_tensor({kBatch, kLength, kWidth}, DType::f32, 1);
  const test::TestTensor gradient = test::random_tensor({kBatch, kLength, kWidth}, DType::f32, 2);
  const Tensor y = transformer.forward(ctx, x.tensor, mask, {});
  transformer.backward(ctx, gradient.tensor);
  compare(y, gradient.tensor, store);
}

/// Per-head masks are sharded like the model's heads: results are the same for any number of ranks.
void expect_same_on_all_ranks(const AttentionMask& mask) {
  Pass whole;
  test::run_device_ranks(1, [&](Communicator& tp) {
    run_pass(tp, mask, [&](const Tensor& y, const Tensor& dx, const ParameterStore& store) {
      whole.y = test::to_doubles(y);
      whole.dx = test::to_doubles(dx);
      for (const Parameter& parameter : store.parameters()) {
        whole.gradients[parameter.name] = test::to_doubles(parameter.grad());
      }
    });
  });
  for (const double value : whole.y) ASSERT_TRUE(std::isfinite(value));
  // Sums of up to 128 products, two layers deep, forward and backward.
  const double tolerance = 4 * test::sum_tolerance(DType::f32, 128);
  for (const int ranks : {2, 4}) {
    test::run_device_ranks(ranks, [&](Communicator& tp) {
      run_pass(tp, mask, [&](const Tensor& y, const Tensor& dx, const ParameterStore& store) {
        test::expect_close(y, whole.y, tolerance, "y");
        test::expect_close(dx, whole.dx, tolerance, "dx");
        for (const Parameter& parameter : store.parameters()) {
          // The key bias shifts all scores of a query equally, so its gradient is only rounding
          // error.
          if (parameter.name.find("qkv.bias") != std::string::npos) continue;
          test::expect_close(parameter.grad(),
                             test::shard_of(whole.gradients.at(parameter.name), parameter),
                             tolerance, parameter.name.c_str());
        }
      });
    });
  }
}

TEST(Transformer, SharedMaskMatchesOnAllLayouts) {
  const test::TestTensor hidden = some_hidden({kLength, kLength}, 5);
  const test::TestTensor keys = some_hidden({kBatch, kLength}, 6);
  AttentionMask mask;
  mask.hidden = hidden.tensor;
  mask.hidden_keys = keys.tensor;
  expect_same_on_all_ranks(mask);
}

TEST(Transformer, PerHeadMaskIsShardedWithHeads) {
  const test::TestTensor hidden = some_hidden({kBatch, kHeads, kLength, kLength}, 5);
  const test::TestTensor additive = some_additive({kBatch, kHeads, kLength, kLength}, 6);
  AttentionMask mask;
  mask.hidden = hidden.tensor;
  expect_same_on_all_ranks(mask);
  mask.additive = additive.tensor;
  expect_same_on_all_ranks(mask);
}

TEST(Transformer, AdditiveMaskComposesWithPaddingAndDocuments) {
  const test::TestTensor additive = some_additive({kBatch, 1, kLength, kLength}, 5);
  const test::TestTensor lengths = test::from_ints(std::vector<int32_t>{7, 12}, {2});
  const test::TestTensor documents = test::from_ints(std::vector<int32_t>{0, 5, 12, 20, 24}, {5});
  AttentionMask mask;
  mask.additive = additive.tensor;
  mask.lengths = lengths.tensor;
  mask.documents = documents.tensor;
  expect_same_on_all_ranks(mask);
}

TEST(Transformer, CausalWindowMatchesExplicitMask) {
  // The same as a mask that lists every pair.
  constexpr int64_t kWindow = 3;
  AttentionMask mask;
  mask.causal = true;
  mask.window = kWindow;
  test::TestTensor hidden({kLength, kLength}, DType::u8);
  for (int64_t t = 0; t < kLength; ++t) {
    for (int64_t s = 0; s < kLength; ++s) {
      hidden.tensor.data<uint8_t>()[t * kLength + s] = s > t || t - s >= kWindow ? 1 : 0;
    }
  }
  AttentionMask pairs;
  pairs.hidden = hidden.tensor;
  test::run_device_ranks(1, [&](Communicator& tp) {
    run_pass(tp, pairs, [&](const Tensor& expected, const Tensor&, const ParameterStore&) {
      run_pass(tp, mask, [&](const Tensor& y, const Tensor&, const ParameterStore&) {
        test::expect_same_bits(y, expected, "y");
      });
    });
  });
}

TEST(Transformer, RemovedPaddingMatchesMaskedPadding) {
  const test::TestTensor lengths = test::from_ints(std::vector<int32_t>{7, 10}, {2});
  const test::TestTensor documents = test::from_ints(std::vector<int32_t>{0, 7, 17}, {3});
  test::run_device_ranks(2, [&](Communicator& tp) {
    ParameterStore store;
    Transformer transformer(store, small_config(), tp);
    store.allocate(test::test_device(), DType::f32, StoreFor::inference);
    store.initialize(3);
    Arena arena(test::test_device(), size_t{4} << 20);
    const test::TestTensor x = test::random_tensor({kBatch, kLength, kWidth}, DType::f32, 1);
    AttentionMask padded;
    padded.lengths = lengths.tensor;
    const Tensor with = transformer.forward(StepContext{arena}, x.tensor, padded, {});

    test::TestTensor real({1, 17, kWidth}, DType::f32), places({17}, DType::i32);
    std::vector<double> expected;
    for (int32_t row = 0; row < 17; ++row) {
      const int32_t place = row < 7 ? row : row - 7 + static_cast<int32_t>(kLength);
      places.tensor.data<int32_t>()[row] = place;
      const auto from = x.tensor.view({kBatch * kLength, kWidth}).slice(place, place + 1);
      std::copy_n(from.data<float>(), kWidth, real.tensor.data<float>() + row * kWidth);
      const auto result =
          test::to_doubles(with.view({kBatch * kLength, kWidth}).slice(place, place + 1));
      expected.insert(expected.end(), result.begin(), result.end());
    }
    AttentionMask compact;
    compact.documents = documents.tensor;
    StepContext ctx{arena};
    ctx.padded_rows = {places.tensor, kLength};
    const Tensor without = transformer.forward(ctx, real.tensor, compact, {});
    test::expect_close(without, expected, 2 * test::sum_tolerance(DType::f32, 128), "real rows");
  });
}

/// How often a dry run of a backward pass calls `op`, with `num_layers` blocks.
int64_t backward_calls(const char* op, ModelConfig config, int num_layers) {
  config.num_layers = num_layers;
  const auto tp = make_self_communicator();
  ParameterStore store;
  Transformer transformer(store, config, *tp);
  store.allocate(kMeta, DType::f32, StoreFor::training);
  Arena arena(kMeta);
  const Tensor x(nullptr, {kBatch, kLength, kWidth}, DType::f32, kMeta);
  transformer.forward(StepContext{arena}, x, {}, {});
  WorkLog log;
  const WorkLog::Scope scope(&log);
  transformer.backward(StepContext{arena}, x);
  return std::count_if(log.events().begin(), log.events().end(),
                       [&](const auto& event) { return event.op == op; });
}

TEST(Transformer, NormsAddTheGradientsOfResidualsInTheirBackward) {
  ModelConfig pre_norm = small_config();
  apply_preset(pre_norm, ModelKind::gpt2);
  for (const int layers : {1, 5}) {
    // Below a post-norm model there is no norm to add the last one.
    EXPECT_EQ(backward_calls("add", small_config(), layers), 1);
    EXPECT_EQ(backward_calls("add", pre_norm, layers), 0);
    EXPECT_EQ(backward_calls("layer_norm_backward", small_config(), layers), 2 * layers);
  }
}

TEST(Transformer, RefusesMaskOfWrongShape) {
  test::run_device_ranks(2, [](Communicator& tp) {
    ParameterStore store;
    Transformer transformer(store, small_config(), tp);
    store.allocate(kMeta, DType::f32, StoreFor::inference);
    Arena arena(kMeta);
    const Tensor x(nullptr, {kBatch, kLength, kWidth}, DType::f32, kMeta);
    AttentionMask mask;
    mask.hidden = Tensor(nullptr, {kBatch, 2, kLength, kLength}, DType::u8, kMeta);
    test::expect_error([&] { transformer.forward(StepContext{arena}, x, mask, {}); },
                       {"mask.hidden", "(2, 2, 12, 12)", "(2, 12, 6, 8)", "4 heads",
                        "(2, 1, 12, 12)", "(2, 4, 12, 12)"});
  });
}

}  // namespace
}  // namespace tessera
