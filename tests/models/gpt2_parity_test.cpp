#include <gtest/gtest.h>

#include <algorithm>

#include "core/arena.h"
#include "core/ops/elementwise.h"
#include "launch/data/loading/batch_buffers.h"
#include "launch/data/loading/device_batch.h"
#include "launch/train/optimizer/gradient_clip.h"
#include "launch/train/optimizer/optimizer.h"
#include "models/model.h"
#include "tests/support/golden.h"
#include "tests/support/runs/device_ranks.h"
#include "tests/support/runs/random_batch.h"
#include "tests/support/tensors.h"

// Compares Tessera's GPT with Hugging Face's GPT2LMHeadModel, as described in
// tests/parity/README.md. The README also explains the tolerances: a small multiple of the
// deviation of PyTorch's fp32 from its float64.

namespace tessera {
namespace {

constexpr int64_t kSteps = 10;

ModelConfig golden_config() {
  ModelConfig config;
  config.num_layers = 2;
  config.hidden_size = 24;
  config.num_heads = 3;
  config.seq_length = 16;
  config.vocab_size = 53;
  config.dropout = 0.0;
  config.attention_dropout = 0.0;
  return config;
}

/// The model with the golden weights on one tensor rank, and the golden batch.
class GoldenModel {
 public:
  explicit GoldenModel(Communicator& tp)
      : tp_(tp),
        model_(golden_config(), store_, tp),
        buffers_({3, 16}),
        on_device_({3, 16}, test::test_device()),
        sums_({LossSums::kCount}, DType::f64),
        arena_(test::test_device(), size_t{8} << 20) {
    store_.allocate(test::test_device(), DType::f32, StoreFor::training);
    golden_.load_weights(store_);
    const auto tokens = golden_.get<int32_t>("tokens"), targets = golden_.get<int32_t>("targets");
    for (int64_t row = 0; row < 3; ++row) {
      Sample sample;
      sample.tokens.assign(&tokens[static_cast<size_t>(row * 16)],
                           &tokens[static_cast<size_t>(row * 16)] + 16);
      sample.targets.assign(&targets[static_cast<size_t>(row * 16)],
                            &targets[static_cast<size_t>(row * 16)] + 16);
      sample.document_lengths = {16};
      buffers_.append(sample, 53, "golden", row);
    }
  }

  double train() {
    const TokenBatch batch = on_device_.upload(buffers_);
    const auto count = static_cast<double>(batch.num_targets());
    fill(sums_.tensor, 0.0);
    store_.zero_grads();
    arena_.reset();
    StepContext ctx{arena_};
    ctx.training = true;
    model_.train(ctx, batch, {static_cast<float>(1.0 / count), 0.0f}, {sums_.tensor});
    return sums_.tensor.span<double>()[0] / count;
  }

  Tensor logits() {
    arena_.reset();
    return model_.token_logits(StepContext{arena_},
                               test::with_every_target(on_device_.upload(buffers_)));
  }

  Communicator& tp_;
  test::Golden golden_{"gpt2"};
  ParameterStore store_;
  Model model_;
  BatchBuffers buffers_;
  DeviceBatch on_device_;
  test::TestTensor sums_;
  Arena arena_;
};

class Gpt2Parity : public testing::TestWithParam<int> {};

TEST_P(Gpt2Parity, LogitsLossAndGradientsMatch) {
  test::run_device_ranks(GetParam(), [](Communicator& tp) {
    GoldenModel golden(tp);
    const auto expected = golden.golden_.get<float>("logits");
    const auto actual = golden.logits().span<float>();
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(actual[i], expected[i], 2e-5) << "logit " << i;
    }
    EXPECT_NEAR(golden.train(), golden.golden_.get<float>("loss")[0], 2e-6);
    golden.golden_.expect_parameters(golden.store_, "grad/", &Parameter::grad, 5e-6,
                                     test::Golden::KeyBias::compared);
  });
}

TEST_P(Gpt2Parity, TenAdamWStepsMatch) {
  test::run_device_ranks(GetParam(), [](Communicator& tp) {
    GoldenModel golden(tp);
    OptimizerSection settings;
    settings.betas = {0.9, 0.95};
    settings.eps = 1e-8;
    settings.weight_decay = 0.1;
    const ParallelGroups groups = make_parallel_groups(tp, {.tensor = tp.size()});
    OptimizerState state(golden.store_);
    Optimizer optimizer(settings, state, groups);
    GradientClip clip(golden.store_, groups, {.max_norm = 1.0});
    const auto losses = golden.golden_.get<float>("losses");
    const auto norms = golden.golden_.get<float>("grad_norms");
    for (int64_t step = 0; step < kSteps; ++step) {
      const auto i = static_cast<size_t>(step);
      EXPECT_NEAR(golden.train(), losses[i], 2e-6) << "step " << step;
      const Tensor& scale = clip.scale(step + 1, {golden.sums_.tensor});
      const double norm = clip.record().norm().span<double>()[0];
      EXPECT_NEAR(norm, norms[i], 1e-5 * double{norms[i]}) << "step " << step;
      optimizer.step(step, /*lr=*/1e-2, scale);
    }
    golden.golden_.expect_parameters(golden.store_, "trained/", &Parameter::value, 1e-5,
                                     test::Golden::KeyBias::left_out);
  });
}

INSTANTIATE_TEST_SUITE_P(TensorRanks, Gpt2Parity, testing::Values(1, 3));

}  // namespace
}  // namespace tessera
