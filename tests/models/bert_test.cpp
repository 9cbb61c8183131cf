#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

#include "core/arena.h"
#include "core/error.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/elementwise.h"
#include "launch/data/loading/batch_buffers.h"
#include "launch/data/loading/device_batch.h"
#include "models/architecture.h"
#include "models/model.h"
#include "tests/support/finite_difference.h"
#include "tests/support/runs/device_ranks.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

constexpr int64_t kVocab = 29;

ModelConfig small_config() {
  ModelConfig config = preset(ModelKind::bert);
  config.num_layers = 2;
  config.hidden_size = 32;
  config.num_heads = 4;
  config.seq_length = 16;
  config.vocab_size = kVocab;
  config.token_types = 2;
  config.next_sentence = true;
  config.dropout = 0.0;
  config.attention_dropout = 0.0;
  config.init_stddev = 0.2;
  return config;
}

/// A text of `length` tokens with a target at every third one, determined by `seed`.
Sample text(int64_t length, uint64_t seed) {
  const test::TestTensor tokens = test::random_ints({length}, 0, kVocab, seed);
  Sample sample;
  for (int64_t t = 0; t < length; ++t) {
    const int32_t token = tokens.tensor.span<int32_t>()[static_cast<size_t>(t)];
    sample.tokens.push_back(token);
    sample.token_types.push_back(t > length / 2 ? 1 : 0);
    sample.targets.push_back(t % 3 == 1 ? (token + 5) % static_cast<int32_t>(kVocab)
                                        : kIgnoreTarget);
  }
  sample.document_lengths = {static_cast<int32_t>(length)};
  sample.labels = {static_cast<int32_t>(seed % 2)};
  return sample;
}

Sample packed(const std::vector<Sample>& parts) {
  Sample row;
  for (const Sample& part : parts) {
    const auto append = [](std::vector<int32_t>& to, const std::vector<int32_t>& from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    append(row.tokens, part.tokens);
    append(row.token_types, part.token_types);
    append(row.targets, part.targets);
    append(row.document_lengths, part.document_lengths);
    append(row.labels, part.labels);
  }
  return row;
}

/// A model on one or more ranks, and batches of rows for it.
class SmallBert {
 public:
  SmallBert(const ModelConfig& config, Communicator& tp, StoreFor purpose = StoreFor::training)
      : model_(config, store_, tp),
        arena_(test::test_device(), size_t{8} << 20),
        seq_length_(config.seq_length),
        sums_({LossSums::kCount}, DType::f64) {
    store_.allocate(test::test_device(), DType::f32, purpose);
    store_.initialize(5);
  }

  const TokenBatch& load(const std::vector<Sample>& rows) {
    buffers_ = std::make_unique<BatchBuffers>(BatchShape{std::ssize(rows), seq_length_});
    for (const Sample& row : rows) {
      row.tokens.empty() ? buffers_->append_empty() : buffers_->append(row, kVocab, "test", 0);
    }
    on_device_ = std::make_unique<DeviceBatch>(BatchShape{std::ssize(rows), seq_length_},
                                               test::test_device());
    batch_ = on_device_->upload(*buffers_);
    return batch_;
  }

  /// Returns the loss, 0.3 × token losses + 0.7 × document losses.
  double train(bool training = false) {
    store_.zero_grads();
    fill(sums_.tensor, 0.0);
    arena_.reset();
    StepContext ctx{arena_};
    ctx.training = training;
    model_.train(ctx, batch_, {0.3f, 0.7f}, {sums_.tensor});
    const auto sums = sums_.tensor.span<double>();
    return 0.3 * sums[0] + 0.7 * sums[2];
  }

  Tensor token_logits() {
    arena_.reset();
    return model_.token_logits(StepContext{arena_}, batch_);
  }

  ParameterStore store_;
  Model model_;
  Arena arena_;
  int64_t seq_length_;
  test::TestTensor sums_;
  std::unique_ptr<BatchBuffers> buffers_;
  std::unique_ptr<DeviceBatch> on_device_;
  TokenBatch batch_;
};

/// Equal up to the rounding of a few dozen sums. Attention is bitwise equal on the CPU, but a
/// product's summation order may depend on its number of rows, as in oneDNN without AVX-512.
void expect_same(const Tensor& actual, const Tensor& expected, const char* what) {
  test::expect_close(actual, test::to_doubles(expected), 1e-5, what);
}

TEST(Bert, LogitsDoNotDependOnPositionInBatch) {
  for (const Positions positions :
       {Positions::learned, Positions::rotary, Positions::alibi, Positions::relative}) {
    test::run_device_ranks(2, [&](Communicator& tp) {
      ModelConfig config = small_config();
      config.positions = positions;
      SmallBert bert(config, tp);
      const Sample a = text(9, 1), b = text(5, 2), empty;
      bert.load({a});
      const test::TestTensor alone = test::copy_of(bert.token_logits());
      bert.load({b, empty, a});
      const Tensor padded = bert.token_logits();
      expect_same(padded.slice(2, 5), alone.tensor, "after another row");
      bert.load({packed({b, a})});
      expect_same(bert.token_logits().slice(2, 5), alone.tensor, "packed behind another");
    });
  }
}

TEST(Bert, PackedRowsMatchSeparateRows) {
  for (const Positions positions : {Positions::learned, Positions::alibi, Positions::relative}) {
    test::run_device_ranks(1, [&](Communicator& tp) {
      ModelConfig config = small_config();
      config.positions = positions;
      SmallBert bert(config, tp);
      const Sample a = text(9, 1), b = text(5, 2);
      bert.load({a, b});
      const double apart = bert.train();
      const test::TestTensor gradient = test::copy_of(bert.store_.flat_grads());
      bert.load({packed({a, b})});
      EXPECT_EQ(bert.train(), apart);
      test::expect_same_bits(bert.store_.flat_grads(), gradient.tensor, "gradients");
    });
  }
}

/// Compares gradients with finite differences along directions near the gradient's, where slopes
/// are a few hundred. In fp32, a difference of losses of about 10 has an error of 1e-6 / h;
/// curvature contributes an error in h², 1% at h = 1e-3. If `only` is given, the directions change
/// only this parameter, whose slopes are smaller, so h is larger.
void expect_gradient_is_slope(const ModelConfig& config, const std::string& only = "") {
  test::run_device_ranks(1, [&](Communicator& tp) {
    SmallBert bert(config, tp);
    bert.load({text(9, 1), packed({text(5, 2), text(7, 3)})});
    bert.train();
    auto gradient = test::to_doubles(bert.store_.flat_grads());
    if (!only.empty()) {
      const auto& all = bert.store_.parameters();
      const auto found = std::ranges::find(all, only, &Parameter::name);
      ASSERT_NE(found, all.end());
      const auto begin = gradient.begin() + found->offset, end = begin + found->value().numel();
      std::fill(gradient.begin(), begin, 0.0);
      std::fill(end, gradient.end(), 0.0);
    }
    const Tensor weights = bert.store_.flat_values();
    const auto start = test::to_doubles(weights);
    for (const uint64_t seed : {11, 12, 13}) {
      // Along the signs of the gradient, mixed with noise, so that the slope is not near zero.
      const test::TestTensor noise = test::random_tensor(weights.shape(), DType::f32, seed);
      std::vector<double> direction = test::to_doubles(noise.tensor);
      for (size_t i = 0; i < direction.size(); ++i) {
        direction[i] =
            gradient[i] == 0.0 ? 0.0 : direction[i] * 0.1 + std::copysign(0.3, gradient[i]);
      }
      const auto loss_at = [&](double h) {
        for (size_t i = 0; i < start.size(); ++i) {
          weights.span<float>()[i] = static_cast<float>(start[i] + h * direction[i]);
        }
        return bert.train();
      };
      const double step = only.empty() ? 1e-4 : 1e-2;
      const double slope = (loss_at(step) - loss_at(-step)) / (2.0 * step);
      const double expected = test::dot(gradient, direction);
      EXPECT_NE(expected, 0.0);
      EXPECT_NEAR(slope, expected, 2e-3 * std::abs(expected));
    }
  });
}

TEST(Bert, GradientMatchesFiniteDifferences) { expect_gradient_is_slope(small_config()); }

TEST(Bert, GradientMatchesFiniteDifferencesWithPreNorm) {
  ModelConfig config = small_config();
  config.norm_position = NormPosition::pre;
  expect_gradient_is_slope(config);
}

TEST(Bert, GradientMatchesFiniteDifferencesWithRotaryAndWindow) {
  ModelConfig config = small_config();
  config.next_sentence = false;
  config.token_types = 0;
  config.positions = Positions::rotary;
  config.attention_window = 3;
  expect_gradient_is_slope(config);
}

TEST(Bert, GradientMatchesFiniteDifferencesWithPositionBias) {
  ModelConfig config = small_config();
  config.positions = Positions::alibi;
  expect_gradient_is_slope(config);
  config.positions = Positions::relative;
  config.relative_max_distance = 12;
  expect_gradient_is_slope(config);
  expect_gradient_is_slope(config, "position_bias.weight");
  config.attention_window = 4;
  config.window_pattern = "GL";
  expect_gradient_is_slope(config, "position_bias.weight");
}

TEST(Bert, GradientMatchesFiniteDifferencesWithScaleAndBiasesOfAttention) {
  ModelConfig config = small_config();
  config.attention_scale = 0.9;
  config.bias = Bias::attention;
  expect_gradient_is_slope(config);
  config.embedding_norm = false;
  expect_gradient_is_slope(config);
}

TEST(Bert, GradientMatchesFiniteDifferencesWithClassifier) {
  ModelConfig config = small_config();
  config.next_sentence = false;
  config.head = Head::classification;
  config.num_labels = 3;
  expect_gradient_is_slope(config);
}

/// ModernBERT with grouped queries and QK norm.
ModelConfig small_modernbert() {
  ModelConfig config = small_config();
  apply_preset(config, ModelKind::modernbert);
  config.token_types = 0;
  config.next_sentence = false;
  config.num_kv_heads = 2;
  config.qk_norm = true;
  config.attention_window = 3;
  config.window_pattern = "GL";
  return config;
}

TEST(Bert, GradientMatchesFiniteDifferencesOfModernBert) {
  expect_gradient_is_slope(small_modernbert());
  ModelConfig classifier = small_modernbert();
  classifier.head = Head::classification;
  classifier.num_labels = 3;
  expect_gradient_is_slope(classifier);
}

TEST(Bert, EmptyBatchHasZeroLossAndGradient) {
  test::run_device_ranks(2, [](Communicator& tp) {
    SmallBert bert(small_config(), tp);
    bert.load({Sample{}, Sample{}});
    EXPECT_EQ(bert.train(true), 0.0);
    for (const float g : bert.store_.flat_grads().span<float>()) ASSERT_EQ(g, 0.0f);
  });
}

TEST(Bert, TokenOutsideWindowHasNoEffect) {
  test::run_device_ranks(1, [](Communicator& tp) {
    ModelConfig config = small_config();
    config.num_layers = 1;  // each further layer would widen what a token sees
    config.attention_window = 3;
    SmallBert bert(config, tp);
    Sample sample = text(12, 1);
    bert.load({sample});
    const test::TestTensor before = test::copy_of(bert.token_logits());
    sample.tokens[11] = (sample.tokens[11] + 1) % static_cast<int32_t>(kVocab);
    bert.load({sample});
    const Tensor after = bert.token_logits();  // of tokens 1, 4, 7, 10
    test::expect_same_bits(after.slice(0, 3), before.tensor.slice(0, 3), "far tokens");
    EXPECT_NE(test::to_doubles(after.slice(3, 4)), test::to_doubles(before.tensor.slice(3, 4)));
  });
}

TEST(Bert, CountsCorrectPredictions) {
  test::run_device_ranks(2, [](Communicator& tp) {
    SmallBert bert(small_config(), tp);
    Sample sample = text(9, 1);
    bert.load({sample});
    const Tensor logits = bert.token_logits();
    // Makes the most likely token the target of the first two of three.
    int64_t target = 0;
    for (size_t t = 0; t < sample.targets.size(); ++t) {
      if (sample.targets[t] == kIgnoreTarget) continue;
      const auto row = logits.slice(target, target + 1).span<float>();
      const auto best = std::max_element(row.begin(), row.end()) - row.begin();
      const auto other = std::min_element(row.begin(), row.end()) - row.begin();
      sample.targets[t] = static_cast<int32_t>(target < 2 ? best : other);
      ++target;
    }
    ASSERT_EQ(target, 3);
    const TokenBatch& batch = bert.load({sample});
    fill(bert.sums_.tensor, 0.0);
    bert.arena_.reset();
    const test::TestTensor predictions({1}, DType::i32);
    bert.model_.evaluate(StepContext{bert.arena_}, batch, {bert.sums_.tensor}, predictions.tensor);
    EXPECT_EQ(bert.sums_.tensor.span<double>()[1], 2.0);
    const bool right = predictions.tensor.span<int32_t>()[0] == sample.labels[0];
    EXPECT_EQ(bert.sums_.tensor.span<double>()[3], right ? 1.0 : 0.0);
  });
}

TEST(Bert, RefusesMissingHead) {
  test::run_device_ranks(1, [](Communicator& tp) {
    ModelConfig config = small_config();
    config.head = Head::classification;
    config.num_labels = 2;
    SmallBert classifier(config, tp, StoreFor::inference);
    classifier.load({text(5, 1)});
    EXPECT_THROW(classifier.token_logits(), Error);
  });
}

}  // namespace
}  // namespace tessera
