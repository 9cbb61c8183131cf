#include "launch/metrics/model_flops.h"

#include <gtest/gtest.h>

#include "launch/metrics/gpu_peaks.h"
#include "models/architecture.h"

namespace tessera {
namespace {

TEST(ModelFlops, MatchPaLMPaperForGpt2) {
  ModelConfig config = preset(ModelKind::gpt2);
  config.num_layers = 12;
  config.hidden_size = 768;
  config.num_heads = 12;
  config.seq_length = 1024;
  config.vocab_size = 50257;
  TargetCounts counts;
  counts.tokens = counts.token_targets = 4 * 1024;
  counts.pairs = 4 * 1024 * 1024;
  // N: 12 blocks of 12 × 768² weights and a head of 50257 × 768; per token 6 N + 12 L C T.
  const double n = 12.0 * 12 * 768 * 768 + 50257.0 * 768;
  const double per_token = 6 * n + 12.0 * 12 * 768 * 1024;
  EXPECT_DOUBLE_EQ(model_flops(config, counts), 4096 * per_token);
}

TEST(ModelFlops, CountBertHeadOnlyForTargets) {
  ModelConfig config = preset(ModelKind::bert);
  config.num_layers = 1;
  config.hidden_size = 8;
  config.num_heads = 2;
  config.vocab_size = 100;
  TargetCounts counts;
  counts.tokens = 50;
  counts.token_targets = 30;
  EXPECT_DOUBLE_EQ(block_flops(config, counts), 6.0 * 12 * 64 * 50);
  EXPECT_DOUBLE_EQ(model_flops(config, counts),
                   block_flops(config, counts) + 6.0 * (800 + 64) * 30);
}

TEST(ModelFlops, CountOnlyRowsThatAreReadBehindLastAttention) {
  ModelConfig config = preset(ModelKind::bert);
  config.num_layers = 3;
  config.hidden_size = 8;
  config.num_heads = 2;
  TargetCounts counts;
  counts.tokens = 50;
  counts.token_targets = 7;
  counts.documents = 4;
  // Of 12 × 8² weights of a block, the projections to queries, keys and values have 3 × 8².
  EXPECT_DOUBLE_EQ(block_flops(config, counts), 6.0 * 64 * (2 * 12 * 50 + 3 * 50 + 9 * 7));
  config.next_sentence = true;
  EXPECT_DOUBLE_EQ(block_flops(config, counts), 6.0 * 64 * (2 * 12 * 50 + 3 * 50 + 9 * 11));
  config.head = Head::classification;
  EXPECT_DOUBLE_EQ(block_flops(config, counts), 6.0 * 64 * (2 * 12 * 50 + 3 * 50 + 9 * 4));
  config.classifier_pooling = Pooling::mean;
  EXPECT_DOUBLE_EQ(block_flops(config, counts), 6.0 * 64 * 3 * 12 * 50);
}

TEST(ModelFlops, CountBothStacksAndCrossAttention) {
  ModelConfig config = preset(ModelKind::encoder_decoder);
  config.num_layers = 2;
  config.num_decoder_layers = 3;
  config.hidden_size = 8;
  config.num_heads = 2;
  config.vocab_size = 100;
  TargetCounts counts;
  counts.source_tokens = 50;
  const double encoder = 6.0 * 2 * 12 * 64 * 50, keys_and_values = 6.0 * 3 * 2 * 64 * 50;
  EXPECT_DOUBLE_EQ(model_flops(config, counts), encoder + keys_and_values);
  counts = {};
  counts.tokens = 10;
  EXPECT_DOUBLE_EQ(model_flops(config, counts), 6.0 * 3 * (12 + 2) * 64 * 10);
  counts = {};
  counts.pairs = 1, counts.cross_pairs = 10, counts.source_pairs = 100;
  EXPECT_DOUBLE_EQ(model_flops(config, counts), 12.0 * 8 * (3 * 1 + 3 * 10 + 2 * 100));
}

TEST(PeakFlops, DependOnGpuAndPrecision) {
  EXPECT_EQ(peak_flops("NVIDIA H100 80GB HBM3", DType::bf16), 989e12);
  EXPECT_EQ(peak_flops("NVIDIA H100 PCIe", DType::bf16), 756e12);
  EXPECT_EQ(peak_flops("NVIDIA H200", DType::f32), 67e12);
  EXPECT_EQ(peak_flops("NVIDIA H100 80GB HBM3", DType::f32, /*tf32=*/true), 494.5e12);
  EXPECT_EQ(peak_flops("NVIDIA A100-SXM4-80GB", DType::f32, /*tf32=*/true), 156e12);
  EXPECT_EQ(peak_flops("NVIDIA A100-SXM4-80GB", DType::bf16, /*tf32=*/true), 312e12);
  EXPECT_EQ(peak_flops("NVIDIA A100-SXM4-80GB", DType::bf16), 312e12);
  EXPECT_EQ(peak_flops("NVIDIA RTX A1000", DType::bf16), std::nullopt);
  EXPECT_EQ(peak_flops("emulated GPU", DType::bf16), std::nullopt);
}

TEST(PeakFlops, ComeWithMemoryAndLinks) {
  EXPECT_EQ(gpu_peaks("NVIDIA H100 80GB HBM3")->memory_bandwidth, 3350e9);
  EXPECT_EQ(gpu_peaks("NVIDIA H200")->memory_bandwidth, 4800e9);
  EXPECT_EQ(gpu_peaks("NVIDIA A100-SXM4-80GB")->memory_bandwidth, 2039e9);
  EXPECT_EQ(gpu_peaks("NVIDIA A100-SXM4-40GB")->memory_bandwidth, 1555e9);
  EXPECT_EQ(gpu_peaks("NVIDIA A100 80GB PCIe")->memory_bandwidth, 1935e9);
  EXPECT_EQ(gpu_peaks("NVIDIA B200")->nvlink, 1800e9);
  EXPECT_EQ(gpu_peaks("NVIDIA L4")->nvlink, 0.0);
}

}  // namespace
}  // namespace tessera
