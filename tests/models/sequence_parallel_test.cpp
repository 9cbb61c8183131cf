#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/arena.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/elementwise.h"
#include "launch/data/loading/batch_buffers.h"
#include "launch/data/loading/device_batch.h"
#include "models/architecture.h"
#include "models/model.h"
#include "parallel/partial_gradients.h"
#include "tests/support/runs/device_ranks.h"
#include "tests/support/runs/shards.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

constexpr int64_t kVocab = 29, kLength = 16;

ModelConfig small_config(ModelKind kind) {
  ModelConfig config;
  config.kind = kind;
  config.num_layers = 2;
  config.hidden_size = 32;
  config.num_heads = 4;
  config.seq_length = kLength;
  config.vocab_size = kVocab;
  config.dropout = 0.2;
  config.attention_dropout = 0.1;
  config.init_stddev = 0.2;
  if (!traits_of(config).causal) {
    config.token_types = 2;
    config.next_sentence = true;
  }
  return config;
}

/// A text of `length` tokens with a target at all of them or at every third.
Sample text(int64_t length, bool all) {
  const test::TestTensor tokens = test::random_ints({length}, 0, kVocab, 9);
  Sample sample;
  for (int64_t t = 0; t < length; ++t) {
    const int32_t token = tokens.tensor.span<int32_t>()[static_cast<size_t>(t)];
    sample.tokens.push_back(token);
    sample.token_types.push_back(t > length / 2 ? 1 : 0);
    sample.targets.push_back(all || t % 3 == 1 ? (token + 5) % static_cast<int32_t>(kVocab)
                                               : kIgnoreTarget);
  }
  sample.document_lengths = {static_cast<int32_t>(length)};
  sample.labels = {1};
  return sample;
}

/// The losses and all gradients of a pass over rows of these lengths.
struct Pass {
  std::vector<double> losses;
  std::map<std::string, std::vector<double>> gradients;
};

Pass train(const ModelConfig& config, const std::vector<int64_t>& lengths, bool all_targets,
           Communicator& tp, const std::function<void(const Parameter&)>& look = {}) {
  ParameterStore store;
  Model model(config, store, tp);
  store.shard_rows();
  store.allocate(test::test_device(), DType::f32, StoreFor::training);
  store.initialize(5);
  BatchBuffers buffers({std::ssize(lengths), kLength});
  for (const int64_t length : lengths) {
    if (length == 0) {
      buffers.append_empty();
    } else {
      buffers.append(text(length, all_targets), kVocab, "test", 0);
    }
  }
  DeviceBatch on_device({std::ssize(lengths), kLength}, test::test_device());
  const TokenBatch batch = on_device.upload(buffers);
  Arena arena(test::test_device(), size_t{8} << 20);
  const test::TestTensor sums({LossSums::kCount}, DType::f64);
  fill(sums.tensor, 0.0);
  StepContext ctx{arena};
  ctx.training = true;
  ctx.rows = {tp.size(), tp.rank()};
  model.train(ctx, batch, {0.3f, 0.7f}, {sums.tensor});
  arena.reset();
  if (ctx.rows.split()) PartialGradients(store, tp).sum(arena);
  Pass pass{test::to_doubles(sums.tensor), {}};
  for (const Parameter& parameter : store.parameters()) {
    pass.gradients[parameter.name] = test::to_doubles(parameter.real_part(parameter.grad()));
    if (look) look(parameter);
  }
  return pass;
}

void expect_same_on_all_ranks(const ModelConfig& config, const std::vector<int64_t>& lengths,
                              bool all_targets) {
  Pass whole;
  test::run_device_ranks(
      1, [&](Communicator& tp) { whole = train(config, lengths, all_targets, tp); });
  // Sums of up to 128 products, 24 deep: two layers of six products, forward and backward.
  const double tolerance = 24 * test::sum_tolerance(DType::f32, 128);
  for (const int ranks : {2, 4}) {
    SCOPED_TRACE(fmt::format("{} ranks", ranks));
    test::run_device_ranks(ranks, [&](Communicator& tp) {
      const Pass pass = train(config, lengths, all_targets, tp, [&](const Parameter& parameter) {
        // The key bias shifts all scores of a query equally, so its gradient is only rounding
        // error.
        if (parameter.name.find("qkv.bias") != std::string::npos) return;
        test::expect_close(parameter.real_part(parameter.grad()),
                           test::shard_of(whole.gradients.at(parameter.name), parameter), tolerance,
                           parameter.name.c_str());
      });
      test::expect_close(pass.losses, whole.losses, tolerance, "losses");
    });
  }
}

/// More rows than ranks, a multiple of the ranks, fewer, one, and none.
const std::vector<int64_t> kLengths[] = {{9, 16, 4}, {8}, {3}, {1}, {0, 0}};

TEST(SequenceParallel, GptMatchesUnshardedForAnyNumberOfTokens) {
  for (const auto& lengths : kLengths) {
    for (const bool all : {true, false}) {
      SCOPED_TRACE(fmt::format("first row of {}, all targets {}", lengths[0], all));
      expect_same_on_all_ranks(small_config(ModelKind::gpt2), lengths, all);
    }
  }
}

TEST(SequenceParallel, BertMatchesUnshardedForAnyNumberOfTokens) {
  for (const auto& lengths : kLengths) {
    SCOPED_TRACE(fmt::format("first row of {}", lengths[0]));
    expect_same_on_all_ranks(small_config(ModelKind::bert), lengths, false);
  }
}

TEST(SequenceParallel, PreNormClassifierMatchesUnsharded) {
  ModelConfig config = small_config(ModelKind::bert);
  config.norm_position = NormPosition::pre;
  config.positions = Positions::rotary;
  config.next_sentence = false;
  config.head = Head::classification;
  config.num_labels = 3;
  expect_same_on_all_ranks(config, {9, 16, 4}, false);
  expect_same_on_all_ranks(config, {3}, false);
}

}  // namespace
}  // namespace tessera
