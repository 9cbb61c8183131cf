#include <gtest/gtest.h>

#include "launch/train/memory/memory_plan.h"
#include "models/architecture.h"
#include "parallel/meta_communicator.h"

namespace tessera {
namespace {

constexpr int64_t kMicro = 4;

ModelConfig model(ModelKind kind, int64_t layers) {
  ModelConfig config;
  config.kind = kind;
  config.num_layers = layers;
  config.hidden_size = 256;
  config.num_heads = 16;
  config.seq_length = 128;
  config.vocab_size = 1000;
  config.token_types = kind == ModelKind::bert ? 2 : 0;
  return config;
}

/// The activation bytes of the first of `ranks` tensor ranks.
int64_t activations(const ModelConfig& config, int ranks, bool sequence,
                    Recompute recompute = Recompute::none) {
  RunConfig run;
  run.model = config;
  run.run.precision = DType::bf16;
  run.batch.global = run.batch.micro = kMicro;
  run.parallel.tensor = ranks;
  run.parallel.sequence = sequence;
  run.train.recompute = recompute;
  const MetaGroups meta(ranks, {.tensor = ranks}, 0);
  return static_cast<int64_t>(plan_memory(run, meta.groups()).arena_bytes);
}

/// The bytes that one more layer adds.
int64_t bytes_of_a_layer(ModelKind kind, int ranks, bool sequence, Recompute recompute) {
  return activations(model(kind, 4), ranks, sequence, recompute) -
         activations(model(kind, 3), ranks, sequence, recompute);
}

/// Korthikanti et al., 2022, table 2, for this implementation, which keeps no masks and no scores.
/// Elements per token:
///   4 C   outputs of two norms, and two residual sums: split only with sequence parallelism
///   12 C  queries, keys, values, attention's output, and the MLP before and after its GELU: always
///         split over the tensor ranks
/// In addition, in fp32: the norms' means and deviations, and attention's log-sum-exps.
int64_t expected_bytes_of_a_layer(int ranks, bool sequence) {
  const ModelConfig config = model(ModelKind::gpt2, 1);
  const int64_t tokens = kMicro * config.seq_length, width = config.hidden_size;
  const int64_t shared = 2 * 12 * width + 4 * config.num_heads, norms = 2 * 4 * width + 4 * 4;
  return tokens * shared / ranks + tokens * norms / (sequence ? ranks : 1);
}

TEST(SequenceMemory, LayerMatchesPaper) {
  for (const ModelKind kind : {ModelKind::gpt2, ModelKind::bert}) {
    for (const int ranks : {1, 2, 4, 8}) {
      for (const bool sequence : {false, true}) {
        SCOPED_TRACE(fmt::format("{}, {} ranks, sequence {}", to_string(kind), ranks, sequence));
        EXPECT_EQ(bytes_of_a_layer(kind, ranks, sequence, Recompute::none),
                  expected_bytes_of_a_layer(ranks, sequence));
      }
    }
  }
}

TEST(SequenceMemory, RecomputedBlockKeepsOnlyItsShareOfInput) {
  const ModelConfig config = model(ModelKind::gpt2, 1);
  const int64_t input = kMicro * config.seq_length * config.hidden_size * 2;
  EXPECT_EQ(bytes_of_a_layer(ModelKind::gpt2, 4, false, Recompute::block), input);
  EXPECT_EQ(bytes_of_a_layer(ModelKind::gpt2, 4, true, Recompute::block), input / 4);
}

TEST(SequenceMemory, ReducesActivationsOfDeepModel) {
  const ModelConfig deep = model(ModelKind::gpt2, 24);
  // A layer's 4 C + 12 C / 8 become 16 C / 8, but gathered activations and the head stay.
  EXPECT_LT(activations(deep, 8, true), 45 * activations(deep, 8, false) / 100);
}

TEST(SequenceMemory, ChangesNothingOnOneTensorRank) {
  const ModelConfig config = model(ModelKind::bert, 2);
  EXPECT_EQ(activations(config, 1, true), activations(config, 1, false));
}

}  // namespace
}  // namespace tessera
