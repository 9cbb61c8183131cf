// Attention dropout by cuDNN: train.cudnn_dropout.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string_view>

#include "core/cuda/graph.h"
#include "core/cuda/runtime.h"
#include "core/deterministic.h"
#include "core/ops/cuda/attention/cudnn_attention.h"
#include "core/ops/device_ops.h"
#include "tests/support/attention/attention_reference.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using namespace test;

bool cudnn_is_here() {
  if constexpr (cuda::kHasCudnn) {
    const char* value = std::getenv("TESSERA_EMULATOR_CUDNN");
    const bool is_on = value != nullptr && std::string_view(value) == "1";
    return on_gpu() && (is_on || !cuda::is_emulated());
  }
  return false;
}

// As many features as rows, so that values can be unit vectors.
constexpr int64_t kBatch = 4, kSeq = 32, kHeads = 2, kFeatures = 32;
constexpr double kProbability = 0.25;

/// Two documents per sequence, of one length or not.
const std::vector<int> kDense = {0, 16, 32, 48, 64, 80, 96, 112, 128};
const std::vector<int> kRagged = {0, 7, 32, 50, 64, 65, 96, 126, 128};

class CudnnDropout : public testing::Test {
 protected:
  void SetUp() override {
    if (!cudnn_is_here()) GTEST_SKIP() << "cuDNN is not available";
    allow_cudnn_dropout(true);
  }
  void TearDown() override { allow_cudnn_dropout(false); }

  AttentionOptions options(const std::vector<int>& documents) {
    documents_ = from_ints(documents, {static_cast<int64_t>(documents.size())});
    AttentionOptions options;
    options.scale = 1.0f / std::sqrt(static_cast<float>(kFeatures));
    options.total_heads = kHeads;
    options.mask.causal = true;
    options.mask.documents = documents_.tensor;
    options.mask.document_length = documents == kDense ? kDense[1] : 0;
    options.dropout.probability = static_cast<float>(kProbability);
    options.dropout.key = {7, RandomPurpose::attention_dropout, 3, 11};
    return options;
  }

  TestTensor documents_;
};

/// Queries and keys are random, value s is unit vector s.
TestTensor with_unit_values(const Tensor& random) {
  std::vector<double> values = to_doubles(random);
  for (int64_t row = 0; row < kBatch * kSeq; ++row) {
    for (int64_t i = 0; i < kHeads * kFeatures; ++i) {
      values[static_cast<size_t>(((row * 3 + 2) * kHeads) * kFeatures + i)] =
          i % kFeatures == row % kSeq ? 1.0 : 0.0;
    }
  }
  return from_doubles(values, random.shape(), DType::bf16);
}

struct Outputs {
  TestTensor out{{kBatch, kSeq, kHeads, kFeatures}, DType::bf16};
  TestTensor log_sum_exp{{kBatch, kHeads, kSeq}, DType::f32};

  Outputs(const Tensor& qkv, const AttentionOptions& options) {
    if constexpr (cuda::kHasCudnn) {
      EXPECT_TRUE(cuda::cudnn_attention_forward(qkv, options, out.tensor, log_sum_exp.tensor));
    }
  }
};

/// The weights (B, T, H, S) after dropout.
std::vector<double> dropped_weights(const Tensor& qkv, const AttentionOptions& options) {
  return to_doubles(Outputs(with_unit_values(qkv).tensor, options).out.tensor);
}

AttentionReference reference_of(const AttentionOptions& options,
                                const std::vector<double>& weights) {
  const AttentionMask mask = options.mask;
  return {kBatch,
          kSeq,
          kHeads,
          kFeatures,
          options.scale,
          [=](int64_t b, int64_t h, int64_t t, int64_t s) {
            return hides(mask, kSeq, kHeads, b, h, t, s);
          },
          [=](int64_t b, int64_t h, int64_t t, int64_t s) {
            const double weight =
                weights[static_cast<size_t>(((b * kSeq + t) * kHeads + h) * kSeq + s)];
            return weight == 0.0 ? 0.0 : 1.0 / (1.0 - kProbability);
          }};
}

TEST_F(CudnnDropout, BothPassesDropTheSameWeights) {
  if constexpr (cuda::kHasCudnn) {
    for (const std::vector<int>& documents : {kDense, kRagged}) {
      const AttentionOptions with = options(documents);
      const TestTensor qkv = random_tensor({kBatch, kSeq, 3 * kHeads, kFeatures}, DType::bf16, 1);
      const TestTensor dout = random_tensor({kBatch, kSeq, kHeads, kFeatures}, DType::bf16, 2);
      const std::vector<double> weights = dropped_weights(qkv.tensor, with);
      const AttentionReference reference = reference_of(with, weights);
      const Outputs results(qkv.tensor, with);
      const TestTensor dqkv(qkv.tensor.shape(), DType::bf16);
      ASSERT_TRUE(cuda::cudnn_attention_backward(dout.tensor, qkv.tensor, results.out.tensor,
                                                 results.log_sum_exp.tensor, with, dqkv.tensor));
      const double tolerance =
          sum_tolerance(DType::bf16, kFeatures) * 4 + sum_tolerance(DType::bf16, kSeq);
      const auto textbook = reference.forward(to_doubles(qkv.tensor));
      expect_close(results.out.tensor, textbook.out, tolerance, "out");
      expect_close(results.log_sum_exp.tensor, textbook.log_sum_exp,
                   sum_tolerance(DType::f32, kFeatures) * 4, "log_sum_exp");
      expect_close(dqkv.tensor, reference.backward(to_doubles(qkv.tensor), to_doubles(dout.tensor)),
                   4 * tolerance, "dqkv");
    }
  }
}

TEST_F(CudnnDropout, DropsTheProbabilityOfVisibleWeights) {
  if constexpr (cuda::kHasCudnn) {
    const AttentionOptions with = options(kDense);
    const TestTensor qkv = random_tensor({kBatch, kSeq, 3 * kHeads, kFeatures}, DType::bf16, 1);
    const std::vector<double> weights = dropped_weights(qkv.tensor, with);
    int64_t visible = 0, dropped = 0;
    for (int64_t i = 0; i < std::ssize(weights); ++i) {
      const int64_t s = i % kSeq, h = i / kSeq % kHeads, t = i / (kSeq * kHeads) % kSeq;
      if (hides(with.mask, kSeq, kHeads, i / (kSeq * kHeads * kSeq), h, t, s)) continue;
      ++visible;
      dropped += weights[static_cast<size_t>(i)] == 0.0 ? 1 : 0;
    }
    const double expected = kProbability * static_cast<double>(visible);
    // Five standard deviations of a binomial distribution.
    EXPECT_NEAR(static_cast<double>(dropped), expected,
                5 * std::sqrt(expected * (1 - kProbability)));
  }
}

TEST_F(CudnnDropout, EachStepLayerSequenceAndHeadDropsOthers) {
  if constexpr (cuda::kHasCudnn) {
    const AttentionOptions base = options(kDense);
    const TestTensor qkv = random_tensor({kBatch, kSeq, 3 * kHeads, kFeatures}, DType::bf16, 1);
    const std::vector<double> weights = dropped_weights(qkv.tensor, base);
    EXPECT_EQ(dropped_weights(qkv.tensor, base), weights) << "a repeated call drops the same";
    const auto expect_others = [&](auto change, const char* what) {
      AttentionOptions changed = base;
      change(changed);
      EXPECT_NE(dropped_weights(qkv.tensor, changed), weights) << what;
    };
    expect_others([](AttentionOptions& o) { o.dropout.key.seed = 8; }, "seed");
    expect_others([](AttentionOptions& o) { o.dropout.key.step = 12; }, "step");
    expect_others([](AttentionOptions& o) { o.dropout.key.id = 4; }, "layer");
    expect_others([](AttentionOptions& o) { o.dropout.first_row = kBatch; }, "sequence");
    expect_others([](AttentionOptions& o) { o.total_heads = 4, o.first_head = 2; }, "head");
  }
}

TEST_F(CudnnDropout, GraphDrawsStepWhenLaunched) {
  if constexpr (cuda::kHasCudnn) {
    AttentionOptions with = options(kDense);
    const TestTensor random = random_tensor({kBatch, kSeq, 3 * kHeads, kFeatures}, DType::bf16, 1);
    const TestTensor qkv = with_unit_values(random.tensor);
    const TestTensor rng_offset({2}, DType::i64);
    AttentionOptions captured = with;
    captured.dropout.rng_offset = rng_offset.tensor;
    const Outputs results(qkv.tensor, captured);  // compiles the plans
    const cuda::Graph graph([&] {
      (void)cuda::cudnn_attention_forward(qkv.tensor, captured, results.out.tensor,
                                          results.log_sum_exp.tensor);
    });
    for (const uint32_t step : {1u, 2u}) {
      with.dropout.key.step = step;
      with.dropout.first_row = 8;
      rng_offset.tensor.data<int64_t>()[0] = step;
      rng_offset.tensor.data<int64_t>()[1] = 8;
      graph.launch();
      cuda::synchronize();
      expect_same_bits(results.out.tensor, Outputs(qkv.tensor, with).out.tensor, "out");
    }
  }
}

// Blackwell's cuDNN, for example, has no deterministic gradients with dropout.
TEST_F(CudnnDropout, NeitherPassIsCudnnsWithoutPlanForGradients) {
  if constexpr (cuda::kHasCudnn) {
    if (!cuda::is_emulated()) GTEST_SKIP() << "only the emulated cuDNN can lack one pass";
    setenv("TESSERA_EMULATOR_CUDNN", "forward", /*replace=*/1);
    AttentionOptions with = options(kRagged);
    with.scale = 0.125f;  // not among the plans of other tests
    const TestTensor qkv = random_tensor({kBatch, kSeq, 3 * kHeads, kFeatures}, DType::bf16, 1);
    const TestTensor out({kBatch, kSeq, kHeads, kFeatures}, DType::bf16);
    const TestTensor log_sum_exp({kBatch, kHeads, kSeq}, DType::f32);
    EXPECT_FALSE(cuda::cudnn_attention_forward(qkv.tensor, with, out.tensor, log_sum_exp.tensor));
    with.dropout.probability = 0.0f;
    EXPECT_TRUE(cuda::cudnn_attention_forward(qkv.tensor, with, out.tensor, log_sum_exp.tensor));
    setenv("TESSERA_EMULATOR_CUDNN", "1", /*replace=*/1);
  }
}

}  // namespace
}  // namespace tessera
