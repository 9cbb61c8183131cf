#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "core/arena.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/elementwise.h"
#include "launch/data/loading/batch_buffers.h"
#include "launch/data/loading/device_batch.h"
#include "models/architecture.h"
#include "models/encoder.h"
#include "models/layers/attention/key_value_cache.h"
#include "models/layers/attention/source_cache.h"
#include "models/model.h"
#include "models/transformer.h"
#include "parallel/partial_gradients.h"
#include "tests/support/expect_error.h"
#include "tests/support/runs/device_ranks.h"
#include "tests/support/runs/shards.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

constexpr int64_t kVocab = 29, kLength = 9, kSourceLength = 12;

ModelConfig small_config() {
  ModelConfig config = preset(ModelKind::encoder_decoder);
  config.num_layers = 2;
  config.num_decoder_layers = 3;
  config.hidden_size = 32;
  config.num_heads = 4;
  config.seq_length = kLength;
  config.source_length = kSourceLength;
  config.vocab_size = kVocab;
  config.init_stddev = 0.2;
  return config;
}

/// 3 groups of 2 heads: of 4 ranks, one has none.
ModelConfig grouped_config() {
  ModelConfig config = small_config();
  config.positions = Positions::rotary;
  config.num_heads = 6;
  config.num_kv_heads = 3;
  config.head_dim = 6;
  config.gated_mlp = true;
  config.tie_embeddings = false;
  config.norm_position = NormPosition::post;
  config.embedding_norm = true;
  return config;
}

/// As in T5 v1.1: biases that depend on distances, in buckets of each stack.
ModelConfig relative_config() {
  ModelConfig config = small_config();
  config.positions = Positions::relative;
  config.relative_buckets = 8;
  config.relative_max_distance = 10;
  config.attention_scale = 1.0;
  config.norm = NormType::rms;
  config.bias = Bias::none;
  config.gated_mlp = true;
  return config;
}

/// T5 v1.0, whose dropout has more places, with more MLP columns than 4 ranks share evenly.
ModelConfig t5_config() {
  ModelConfig config = small_config();
  apply_preset(config, ModelKind::t5);
  config.relative_buckets = 8;
  config.relative_max_distance = 10;
  config.mlp_size = 42;
  config.init_stddev = 0.12;  // scores that are not scaled would amplify roundings
  return config;
}

/// T5 v1.1.
ModelConfig gated_t5_config() {
  ModelConfig config = t5_config();
  config.head_dim = 6;
  config.gated_mlp = true;
  config.activation = Activation::gelu_tanh;
  config.tie_embeddings = config.scaled_logits = false;
  return config;
}

/// The numbers of tokens of a row's source and target.
struct Row {
  int64_t source, target;
};

/// Text number `seed`, with a target at each token.
Sample pair_of(const Row& row, uint64_t seed) {
  const auto ids = [](int64_t length, uint64_t its_seed) {
    const test::TestTensor tokens = test::random_ints({length}, 0, kVocab, its_seed);
    const auto span = tokens.tensor.span<int32_t>();
    return std::vector<int32_t>(span.begin(), span.end());
  };
  Sample sample;
  sample.tokens = ids(row.target, 2 * seed);
  sample.targets = ids(row.target, 2 * seed + 100);
  sample.token_types.assign(sample.tokens.size(), 0);
  sample.document_lengths = {static_cast<int32_t>(row.target)};
  sample.source_tokens = ids(row.source, 2 * seed + 1);
  sample.source_lengths = {static_cast<int32_t>(row.source)};
  sample.labels = {kIgnoreTarget};
  return sample;
}

/// A model on one tensor rank, with the batch of some pairs. Rows without a target are empty.
class PairModel {
 public:
  PairModel(const ModelConfig& config, const std::vector<Row>& rows, Communicator& tp,
            DType precision = DType::f32)
      : PairModel(config, samples_of(rows), tp, precision) {}

  PairModel(const ModelConfig& config, const std::vector<Sample>& samples, Communicator& tp,
            DType precision = DType::f32)
      : tp_(tp),
        model(config, store, tp),
        buffers_(batch_shape(std::ssize(samples), traits_of(config))),
        on_device_(batch_shape(std::ssize(samples), traits_of(config)), test::test_device()) {
    store.allocate(test::test_device(), precision, StoreFor::training);
    store.initialize(5);
    for (const Sample& sample : samples) {
      if (sample.tokens.empty()) {
        buffers_.append_empty();
      } else {
        buffers_.append(sample, kVocab, "test", 0);
      }
    }
    batch = on_device_.upload(buffers_);
  }

  static std::vector<Sample> samples_of(const std::vector<Row>& rows) {
    std::vector<Sample> samples;
    for (const Row& row : rows) {
      samples.push_back(row.target == 0 ? Sample{} : pair_of(row, samples.size() + 1));
    }
    return samples;
  }

  /// Runs a pass and returns the losses. With `sharded`, rows are sharded over the tensor ranks.
  std::vector<double> train(bool sharded = false, Recompute recompute = Recompute::none) {
    store.zero_grads();
    arena_.reset();
    const test::TestTensor sums({LossSums::kCount}, DType::f64);
    fill(sums.tensor, 0.0);
    StepContext ctx{arena_};
    ctx.training = true;
    ctx.recompute = recompute;
    if (sharded) {
      ctx.rows = {tp_.size(), tp_.rank()};
      store.shard_rows();
    }
    model.train(ctx, batch, {0.3f, 0.7f}, {sums.tensor});
    arena_.reset();
    PartialGradients(store, tp_).sum(arena_);
    return test::to_doubles(sums.tensor);
  }

  double loss() {
    arena_.reset();
    const test::TestTensor sums({LossSums::kCount}, DType::f64);
    fill(sums.tensor, 0.0);
    model.evaluate(StepContext{arena_}, batch, {sums.tensor}, {});
    return test::to_doubles(LossSums{sums.tensor}.token_loss())[0];
  }

  test::TestTensor logits() {
    arena_.reset();
    return test::copy_of(model.token_logits(StepContext{arena_}, batch));
  }

 private:
  Communicator& tp_;
  Arena arena_{test::test_device(), size_t{8} << 20};

 public:
  ParameterStore store;
  Model model;
  TokenBatch batch;

 private:
  BatchBuffers buffers_;
  DeviceBatch on_device_;
};

double largest(const std::vector<double>& values) {
  double result = 0.0;
  for (const double value : values) result = std::max(result, std::abs(value));
  return result;
}

struct Named {
  std::string name;
  ModelConfig config;

  friend std::ostream& operator<<(std::ostream& out, const Named& named) {
    return out << named.name;
  }
};

class EncoderDecoder : public testing::TestWithParam<Named> {};

// Moves each parameter along its gradient: the loss changes by the gradient's square norm.
TEST_P(EncoderDecoder, GradientsMatchFiniteDifferences) {
  if (test::on_gpu()) GTEST_SKIP() << "the ops have tests of their own, and this takes minutes";
  test::run_device_ranks(1, [&](Communicator& tp) {
    PairModel pairs(GetParam().config, {{7, 5}, {1, 9}, {12, 3}}, tp);
    pairs.train();
    for (const Parameter& parameter : pairs.store.parameters()) {
      const std::vector<double> gradient = test::to_doubles(parameter.real_part(parameter.grad()));
      double square = 0.0;
      for (const double g : gradient) square += g * g;
      const double norm = std::sqrt(square);
      // The bias of keys shifts all scores of a query equally, so part of a bias has no gradient.
      ASSERT_GT(norm, 1e-4) << parameter.name;
      const Tensor value = parameter.real_part(parameter.value());
      const test::TestTensor before = test::copy_of(value);
      const auto at = [&](double step) {
        const auto from = before.tensor.span<float>();
        const auto to = value.span<float>();
        for (size_t i = 0; i < to.size(); ++i) {
          to[i] = static_cast<float>(double{from[i]} + step * gradient[i] / norm);
        }
        return pairs.loss();
      };
      constexpr double kStep = 1e-3;
      const double slope = (at(kStep) - at(-kStep)) / (2.0 * kStep);
      at(0.0);
      // train() scales losses by 0.3. The third derivative and the roundings of the loss remain.
      EXPECT_NEAR(0.3 * slope, norm, 0.01 * norm + 2e-3) << parameter.name;
    }
  });
}

TEST_P(EncoderDecoder, ShardedMatchesWhole) {
  ModelConfig config = GetParam().config;
  config.dropout = 0.2;
  config.attention_dropout = 0.1;
  // More rows than ranks, of sources and targets; fewer of either; none.
  std::vector<std::vector<Row>> batches = {
      {{7, 5}, {12, 9}, {2, 4}}, {{1, 9}}, {{12, 1}}, {{1, 1}}, {{0, 0}, {0, 0}}, {{5, 3}, {0, 0}}};
  if (test::on_gpu()) batches.resize(2);
  // Gradients of the encoder's first layer pass both stacks. The largest error of an element was 34
  // times that of one sum, on AVX-512.
  const double tolerance = 64 * test::sum_tolerance(DType::f32, 128);
  for (const std::vector<Row>& rows : batches) {
    std::map<std::string, std::vector<double>> whole;
    std::vector<double> losses;
    double largest_of_all = 0.0;
    test::run_device_ranks(1, [&](Communicator& tp) {
      PairModel pairs(config, rows, tp);
      losses = pairs.train();
      for (const Parameter& parameter : pairs.store.parameters()) {
        whole[parameter.name] = test::to_doubles(parameter.real_part(parameter.grad()));
        largest_of_all = std::max(largest_of_all, largest(whole[parameter.name]));
      }
    });
    for (const int ranks : {2, 4}) {
      for (const bool sharded : {false, true}) {
        SCOPED_TRACE(
            fmt::format("{} ranks, {} rows sharded, source of {}", ranks, sharded, rows[0].source));
        test::run_device_ranks(ranks, [&](Communicator& tp) {
          PairModel pairs(config, rows, tp);
          test::expect_close(pairs.train(sharded), losses, tolerance, "losses");
          for (const Parameter& parameter : pairs.store.parameters()) {
            // Only rounding errors: a bias of keys shifts all scores of a query equally, and a
            // single key has weight 1, whatever the query.
            if (parameter.name.find("qkv.bias") != std::string::npos) continue;
            if (parameter.name.find("key_value.bias") != std::string::npos) continue;
            if (largest(whole.at(parameter.name)) < 1e-6 * largest_of_all) continue;
            test::expect_close(parameter.real_part(parameter.grad()),
                               test::shard_of(whole.at(parameter.name), parameter), tolerance,
                               parameter.name.c_str());
          }
        });
      }
    }
  }
}

TEST_P(EncoderDecoder, RecomputationIsBitExact) {
  ModelConfig config = GetParam().config;
  config.dropout = 0.2;
  config.attention_dropout = 0.1;
  for (const DType precision : {DType::f32, DType::bf16}) {
    test::run_device_ranks(2, [&](Communicator& tp) {
      PairModel pairs(config, std::vector<Row>{{7, 5}, {12, 9}}, tp, precision);
      pairs.train();
      const test::TestTensor kept = test::copy_of(pairs.store.flat_grads());
      pairs.train(false, Recompute::block);
      test::expect_same_bits(pairs.store.flat_grads(), kept.tensor, "gradients");
    });
  }
}

// A target depends on its own source and on earlier tokens, and on no other pair.
TEST_P(EncoderDecoder, TargetsSeeTheirOwnSource) {
  test::run_device_ranks(2, [&](Communicator& tp) {
    std::vector<Sample> samples = PairModel::samples_of({{7, 5}, {4, 6}});
    const test::TestTensor before = PairModel(GetParam().config, samples, tp).logits();
    int32_t& last = samples[0].source_tokens.back();
    last = (last + 1) % static_cast<int32_t>(kVocab);
    const test::TestTensor after = PairModel(GetParam().config, samples, tp).logits();
    test::expect_close(after.tensor.slice(5, 11), test::to_doubles(before.tensor.slice(5, 11)),
                       test::sum_tolerance(DType::f32, 128), "logits of the other pair");
    for (int64_t row = 0; row < 5; ++row) {
      EXPECT_NE(test::to_doubles(after.tensor.slice(row, row + 1)),
                test::to_doubles(before.tensor.slice(row, row + 1)))
          << row;
    }
    int32_t& third = samples[0].tokens[2];
    third = (third + 1) % static_cast<int32_t>(kVocab);
    const test::TestTensor later = PairModel(GetParam().config, samples, tp).logits();
    test::expect_close(later.tensor.slice(0, 2), test::to_doubles(after.tensor.slice(0, 2)),
                       test::sum_tolerance(DType::f32, 128), "logits of earlier tokens");
    EXPECT_NE(test::to_doubles(later.tensor.slice(2, 3)),
              test::to_doubles(after.tensor.slice(2, 3)));
  });
}

// For inspection: weights over the own source, of a target's tokens and in the encoder, sum to 1.
TEST_P(EncoderDecoder, WeightsAreOfTheOwnSource) {
  test::run_device_ranks(2, [&](Communicator& tp) {
    PairModel pairs(GetParam().config, std::vector<Row>{{7, 5}, {4, 6}}, tp);
    pairs.logits();
    Arena arena(test::test_device(), size_t{8} << 20);
    const StepContext ctx = context_for(StepContext{arena}, pairs.batch);
    const int64_t heads = local_heads(GetParam().config, tp.size(), tp.rank()).size();
    const test::TestTensor weights({1, heads, 11, 11}, DType::f32);
    const auto expect_own = [&](int64_t queries_of_first) {
      const std::vector<double> all = test::to_doubles(weights.tensor);
      for (int64_t row = 0; row < heads * 11; ++row) {
        const bool first = row % 11 < queries_of_first;
        double own = 0.0, other = 0.0;
        for (int64_t s = 0; s < 11; ++s) {
          ((s < 7) == first ? own : other) += all[static_cast<size_t>(row * 11 + s)];
        }
        EXPECT_NEAR(own, 1.0, 1e-5) << row;
        EXPECT_EQ(other, 0.0) << row;
      }
    };
    for (int64_t layer = 0; layer < 3; ++layer) {
      pairs.model.transformer().cross_attention(layer)->weights(ctx, weights.tensor);
      expect_own(5);
    }
    for (int64_t layer = 0; layer < 2; ++layer) {
      pairs.model.encoder()->weights(ctx, layer, weights.tensor);
      expect_own(7);
    }
  });
}

// Generates with both caches, with a prefix or token by token.
TEST_P(EncoderDecoder, ExtendMatchesForward) {
  for (const int ranks : {1, 2, 4}) {
    test::run_device_ranks(ranks, [&](Communicator& tp) {
      constexpr int64_t kTarget = 6;
      PairModel pairs(GetParam().config, {{7, kTarget}, {12, kTarget}}, tp);
      const std::vector<double> whole = test::to_doubles(pairs.logits().tensor);
      Arena arena(test::test_device(), size_t{8} << 20);
      const SourceCache source = pairs.model.encode(StepContext{arena}, pairs.batch.source);
      KeyValueCache cache = pairs.model.make_cache(2);
      int64_t seen = 0;
      for (const int64_t chunk : {3, 1, 1, 1}) {
        arena.reset();
        const Tensor fresh = arena.allocate({2, chunk}, DType::i32);
        for (int64_t b = 0; b < 2; ++b) {
          const int64_t first = b * kTarget + seen;
          copy(pairs.batch.tokens.slice(first, first + chunk), fresh.slice(b, b + 1).view({chunk}));
        }
        const Tensor logits = pairs.model.extend(StepContext{arena}, fresh, cache, &source);
        seen += chunk;
        std::vector<double> expected;
        for (int64_t b = 0; b < 2; ++b) {
          const auto row = whole.begin() + (b * kTarget + seen - 1) * kVocab;
          expected.insert(expected.end(), row, row + kVocab);
        }
        test::expect_close(logits, expected, 5 * test::sum_tolerance(DType::f32, 128), "logits");
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, EncoderDecoder,
                         testing::Values(Named{"learned", small_config()},
                                         Named{"grouped", grouped_config()},
                                         Named{"relative", relative_config()},
                                         Named{"t5", t5_config()},
                                         Named{"t5_gated", gated_t5_config()}),
                         [](const auto& instance) { return instance.param.name; });

TEST(EncoderDecoderErrors, NeedsSources) {
  test::run_device_ranks(1, [&](Communicator& tp) {
    PairModel pairs(small_config(), std::vector<Row>{{7, 5}}, tp);
    Arena arena(test::test_device(), size_t{8} << 20);
    const test::TestTensor tokens = test::random_ints({1, 4}, 0, kVocab, 1);
    KeyValueCache cache = pairs.model.make_cache(1);
    test::expect_error(
        [&] { pairs.model.extend(StepContext{arena}, tokens.tensor, cache); },
        {"Model::extend", "1 texts with 0 encoded sources", "a divisor of their number"});
    pairs.batch.source = {};
    test::expect_error([&] { pairs.logits(); }, {"batches with source texts"});
  });
}

}  // namespace
}  // namespace tessera
