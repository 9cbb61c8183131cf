#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "core/arena.h"
#include "core/error.h"
#include "models/architecture.h"
#include "models/layers/attention/key_value_cache.h"
#include "models/model.h"
#include "tests/support/expect_error.h"
#include "tests/support/runs/device_ranks.h"
#include "tests/support/runs/random_batch.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

ModelConfig small_config() {
  ModelConfig config;
  config.num_layers = 3;
  config.hidden_size = 32;
  config.num_heads = 4;
  config.seq_length = 12;
  config.vocab_size = 29;
  config.init_stddev = 0.3;  // large, so that logits differ clearly
  return config;
}

void expect_extending_is_forward(const ModelConfig& config) {
  for (const int ranks : {1, 2, 4}) {
    test::run_device_ranks(ranks, [&](Communicator& tp) {
      ParameterStore store;
      Model model(config, store, tp);
      store.allocate(test::test_device(), DType::f32, StoreFor::inference);
      store.initialize(5);
      Arena arena(test::test_device(), size_t{4} << 20);
      const test::RandomBatch text(config, 1, 1);
      const test::TestTensor whole = test::copy_of(
          model.token_logits(StepContext{arena}, test::with_every_target(text.batch)));

      KeyValueCache cache = model.make_cache(1);
      int64_t seen = 0;
      for (const int64_t chunk : {5, 1, 1, 1, 1, 1, 1, 1}) {
        const Tensor fresh = text.batch.tokens.slice(seen, seen + chunk).view({1, chunk});
        arena.reset();
        const Tensor logits = model.extend(StepContext{arena}, fresh, cache);
        seen += chunk;
        // Sums of up to 128 products per layer, three layers deep.
        test::expect_close(logits, test::to_doubles(whole.tensor.slice(seen - 1, seen)),
                           3 * test::sum_tolerance(DType::f32, 128), "logits");
      }
      EXPECT_EQ(seen, 12);
    });
  }
}

TEST(Gpt, ExtendMatchesForward) { expect_extending_is_forward(small_config()); }

TEST(Gpt, ExtendMatchesForwardWithRotaryWindowAndPostNorm) {
  ModelConfig config = small_config();
  config.positions = Positions::rotary;
  config.attention_window = 4;
  expect_extending_is_forward(config);
  config.norm_position = NormPosition::post;
  expect_extending_is_forward(config);
}

TEST(Gpt, ExtendMatchesForwardWithGroupedQueries) {
  ModelConfig config = small_config();
  apply_preset(config, ModelKind::llama);
  config.num_heads = 8;
  config.num_kv_heads = 4;
  config.head_dim = 6;
  expect_extending_is_forward(config);
}

TEST(Gpt, ExtendMatchesForwardWithUnequalRanksAndLayers) {
  ModelConfig config = small_config();
  apply_preset(config, ModelKind::qwen3);
  config.num_heads = 6;
  config.num_kv_heads = 3;  // of 4 ranks, one has none
  config.head_dim = 6;
  config.mlp_size = 45;
  config.attention_window = 4;
  config.window_pattern = "GLL";
  config.local_rotary_base = 100.0;
  config.rotary.scaling = RotaryScaling::llama3;
  config.rotary.factor = 4.0;
  config.rotary.original_length = 8;
  expect_extending_is_forward(config);
}

TEST(Gpt, ExtendMatchesForwardWithAlibi) {
  ModelConfig config = small_config();
  config.positions = Positions::alibi;
  expect_extending_is_forward(config);
  config.num_heads = 6;  // no power of two, and 4 ranks have unequal numbers
  config.head_dim = 6;
  config.attention_window = 4;
  config.window_pattern = "GL";
  expect_extending_is_forward(config);
}

TEST(Gpt, ExtendMatchesForwardWithRelativeBias) {
  ModelConfig config = small_config();
  config.positions = Positions::relative;
  config.relative_buckets = 6;
  config.relative_max_distance = 10;
  config.num_heads = 6;
  config.head_dim = 6;
  expect_extending_is_forward(config);
}

TEST(Gpt, ExtendMatchesForwardWithPrefixGlobalTokensAndDilation) {
  ModelConfig config = small_config();
  config.attention_prefix = 5;
  expect_extending_is_forward(config);
  config.positions = Positions::rotary;
  config.attention_window = 3;
  config.global_tokens = 2;
  expect_extending_is_forward(config);
  config.positions = Positions::alibi;
  config.attention_dilation = 2;
  config.window_pattern = "GL";
  expect_extending_is_forward(config);
}

TEST(Gpt, CacheStartsWithWholePrefix) {
  ModelConfig config = small_config();
  config.attention_prefix = 6;
  test::expect_error([&] { expect_extending_is_forward(config); },
                     {"a cache starts with 5 positions, but the 6 of the prefix"});
}

TEST(Gpt, ExtendMatchesForwardWithScaleAndEmbeddingNorm) {
  ModelConfig config = small_config();
  config.attention_scale = 1.0;
  config.embedding_norm = true;
  config.bias = Bias::attention;
  expect_extending_is_forward(config);
}

std::vector<double> logits_of(const ModelConfig& config,
                              const std::function<void(ParameterStore&)>& change) {
  std::vector<double> logits;
  test::run_device_ranks(1, [&](Communicator& tp) {
    ParameterStore store;
    Model model(config, store, tp);
    store.allocate(test::test_device(), DType::f32, StoreFor::inference);
    store.initialize(5);
    change(store);
    Arena arena(test::test_device(), size_t{4} << 20);
    const test::RandomBatch text(config, 1, 1);
    logits = test::to_doubles(model.token_logits(StepContext{arena}, text.batch));
  });
  return logits;
}

// Scaling scores by 4 is scaling queries by 4, which is exact.
TEST(Gpt, AttentionScaleScalesQueries) {
  ModelConfig config = small_config();
  const double scale = config.resolved_attention_scale();
  EXPECT_EQ(scale, 1.0 / std::sqrt(8.0));
  const auto unchanged = [](ParameterStore&) {};
  const std::vector<double> with_default = logits_of(config, unchanged);
  config.attention_scale = scale;
  EXPECT_EQ(logits_of(config, unchanged), with_default);
  config.attention_scale = 4.0 * scale;
  const std::vector<double> scaled = logits_of(config, unchanged);
  EXPECT_NE(scaled, with_default);
  config.attention_scale = 0.0;
  EXPECT_EQ(logits_of(config,
                      [](ParameterStore& store) {
                        for (Parameter& parameter : store.parameters()) {
                          if (parameter.name.find("qkv.weight") == std::string::npos) continue;
                          for (float& x : parameter.value().slice(0, 1).span<float>()) x *= 4.0f;
                        }
                      }),
            scaled);
}

TEST(Gpt, LaterTokensDoNotAffectEarlierLogits) {
  test::run_device_ranks(1, [](Communicator& tp) {
    ParameterStore store;
    Model model(small_config(), store, tp);
    store.allocate(test::test_device(), DType::f32, StoreFor::inference);
    store.initialize(5);
    Arena arena(test::test_device(), size_t{4} << 20);
    test::RandomBatch text(small_config(), 1, 1);
    const test::TestTensor before =
        test::copy_of(model.token_logits(StepContext{arena}, text.batch));
    const test::TestTensor tokens = test::copy_of(text.batch.tokens);
    tokens.tensor.data<int32_t>()[7] = (tokens.tensor.data<int32_t>()[7] + 1) % 29;
    text.batch.tokens = tokens.tensor;
    arena.reset();
    const Tensor after = model.token_logits(StepContext{arena}, text.batch);
    test::expect_same_bits(after.slice(0, 7), before.tensor.slice(0, 7),
                           "logits before the change");
  });
}

TEST(Gpt, RefusesMoreTokensThanPositions) {
  test::run_device_ranks(1, [](Communicator& tp) {
    ParameterStore store;
    Model model(small_config(), store, tp);
    store.allocate(kMeta, DType::f32, StoreFor::inference);
    Arena arena(kMeta);
    const Tensor tokens(nullptr, {1, 13}, DType::i32, kMeta);
    KeyValueCache cache = model.make_cache(1);
    EXPECT_THROW(model.extend(StepContext{arena}, tokens, cache), Error);
  });
}

}  // namespace
}  // namespace tessera
