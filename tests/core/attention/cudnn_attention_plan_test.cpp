#include "core/ops/cuda/attention/cudnn_attention_plan.h"

#include <gtest/gtest.h>

#include <set>
#include <unordered_set>

#include "core/deterministic.h"
#include "core/ops/cuda/attention/cudnn_attention.h"

namespace tessera::cuda {
namespace {

AttentionSetup gpt() {
  AttentionSetup setup;
  setup.mask.causal = setup.mask.documents = setup.mask.compact = true;
  setup.head_dim = 64;
  return setup;
}

TEST(CudnnAttentionUnsupportedReason, SupportsCommonTrainingSetups) {
  AttentionSetup setup = gpt();
  EXPECT_EQ(cudnn_attention_unsupported_reason(setup), std::nullopt);
  setup.mask.window = true;
  EXPECT_EQ(cudnn_attention_unsupported_reason(setup), std::nullopt);
  setup.mask.causal = setup.mask.window = false;
  setup.head_dim = 128;
  EXPECT_EQ(cudnn_attention_unsupported_reason(setup), std::nullopt);
  setup.mask = {};
  setup.mask.lengths = true;
  EXPECT_EQ(cudnn_attention_unsupported_reason(setup), std::nullopt);
}

TEST(CudnnAttentionUnsupportedReason, SupportsDropoutIfAllowed) {
  AttentionSetup setup = gpt();
  setup.dropout = true;
  allow_cudnn_dropout(true);
  EXPECT_EQ(cudnn_attention_unsupported_reason(setup), std::nullopt);
  allow_cudnn_dropout(false);
  EXPECT_NE(cudnn_attention_unsupported_reason(setup)->find("train.cudnn_dropout allows it"),
            std::string::npos);
}

TEST(CudnnAttentionUnsupportedReason, NamesUnsupportedFeature) {
  const auto expect = [](auto change, const char* words) {
    AttentionSetup setup = gpt();
    change(setup);
    const std::string reason = cudnn_attention_unsupported_reason(setup).value();
    EXPECT_NE(reason.find(words), std::string::npos) << reason;
    EXPECT_NE(attention_implementation(setup).find("own kernels, because"), std::string::npos);
  };
  expect([](AttentionSetup& setup) { setup.dtype = DType::f32; }, "bf16, not fp32");
  expect([](AttentionSetup& setup) { setup.head_dim = 60; }, "not 60");
  expect([](AttentionSetup& setup) { setup.head_dim = 256; }, "up to 128, not 256");
  expect([](AttentionSetup& setup) { setup.dropout = true; }, "drop");
  expect([](AttentionSetup& setup) { setup.position_bias = true; }, "position bias");
  expect([](AttentionSetup& setup) { setup.mask.additive = true; }, "documents, additive");
  expect([](AttentionSetup& setup) { setup.mask.hidden_keys = true; }, "causal, hidden_keys");
  expect([](AttentionSetup& setup) { setup.mask.documents = false; }, "batches of documents");
}

/// qkv (1, N, 3, 16, 64) of a batch without padding, with these documents.
AttentionPlanKey key_of(int64_t rows, int64_t num_documents, int64_t document_length) {
  const Tensor qkv(nullptr, {1, rows, 48, 64}, DType::bf16, kMeta);
  AttentionOptions options;
  options.mask.causal = true;
  options.mask.documents = Tensor(nullptr, {num_documents + 1}, DType::i32, kMeta);
  options.mask.document_length = document_length;
  options.padded_rows = {Tensor(nullptr, {rows}, DType::i32, kMeta), 512};
  return attention_plan_key(qkv, options, false);
}

TEST(AttentionPlanKey, EqualDocumentsAreDense) {
  const AttentionPlanKey key = key_of(4096, 8, 512);
  EXPECT_FALSE(key.ragged);
  EXPECT_EQ(key.documents, 8);
  EXPECT_EQ(key.length, 512);
  EXPECT_EQ(key.rows, 4096);
}

TEST(AttentionPlanKey, LengthsUseDensePaddedBatch) {
  const Tensor qkv(nullptr, {3, 40, 48, 64}, DType::bf16, kMeta);
  AttentionOptions options;
  options.mask.lengths = Tensor(nullptr, {3}, DType::i32, kMeta);
  const AttentionPlanKey key = attention_plan_key(qkv, options, false);
  EXPECT_TRUE(key.padded);
  EXPECT_FALSE(key.ragged);
  EXPECT_EQ(key.documents, 3);
  EXPECT_EQ(key.length, 40);
  EXPECT_EQ(key.rows, 120);
}

TEST(AttentionPlanKey, RaggedBatchesShareFewPlans) {
  const AttentionPlanKey key = key_of(3900, 31, 0);
  EXPECT_TRUE(key.ragged);
  EXPECT_EQ(key.documents, 32);
  EXPECT_EQ(key.length, 512);
  EXPECT_EQ(key.rows, 4096);
  EXPECT_EQ(key, key_of(3700, 29, 0));
  EXPECT_NE(key, key_of(2000, 29, 0));

  std::set<int64_t> counts;
  for (int64_t count = 1; count <= 65536; ++count) {
    const int64_t rounded = rounded_count(count);
    ASSERT_GE(rounded, count);
    ASSERT_LE(rounded, count + count / 4 + 1);
    counts.insert(rounded);
  }
  EXPECT_EQ(counts.size(), 8u + 4u * 13u);
}

TEST(AttentionPlanKey, BackwardIsSplitToLimitScratch) {
  const auto backward = [](int64_t documents, int64_t length, int64_t document_length) {
    const int64_t rows = documents * length;
    const Tensor qkv(nullptr, {1, rows, 48, 64}, DType::bf16, kMeta);
    AttentionOptions options;
    options.mask.documents = Tensor(nullptr, {documents + 1}, DType::i32, kMeta);
    options.mask.document_length = document_length;
    options.padded_rows = {Tensor(nullptr, {rows}, DType::i32, kMeta), length};
    return attention_plan_key(qkv, options, true);
  };
  EXPECT_EQ(backward(16, 1024, 1024).documents, 16);  // 2 × 16 × 16 × 1024² bytes = 512 MiB
  EXPECT_EQ(backward(32, 1024, 1024).documents, 16);
  EXPECT_EQ(backward(32, 1024, 1024).rows, 16 * 1024);
  EXPECT_EQ(backward(18, 1024, 1024).documents, 9);
  EXPECT_EQ(backward(17, 1024, 1024).documents, 1);
  EXPECT_EQ(backward(20, 1024, 0).documents, 16);
  EXPECT_EQ(backward(9, 1024, 0).documents, 10);
  EXPECT_EQ(backward(2, 8192, 8192).documents, 1);
  EXPECT_EQ(key_of(1 << 16, 128, 512).documents, 128) << "a forward pass needs no scratch";
  use_deterministic_algorithms(false);
  EXPECT_EQ(backward(32, 1024, 1024).documents, 32);
  use_deterministic_algorithms(true);
}

TEST(AttentionPlanKey, DenseCallsStartAtAlignedStatistics) {
  AttentionPlanKey key{};
  key.heads = 3, key.length = 10;
  EXPECT_EQ(dense_documents(key, 6, 6), 6) << "one call";
  EXPECT_EQ(dense_documents(key, 6, 3), 2) << "3 × 30 numbers are not a multiple of 16 bytes";
  key.length = 5;
  EXPECT_EQ(dense_documents(key, 6, 3), 6) << "no part of the batch is aligned either";
}

TEST(AttentionPlanKey, EveryPartDistinguishesKeys) {
  const AttentionPlanKey base = key_of(4096, 8, 512);
  std::unordered_set<AttentionPlanKey, AttentionPlanKeyHash> keys{base};
  const auto insert = [&](auto change) {
    AttentionPlanKey key = base;
    change(key);
    EXPECT_TRUE(keys.insert(key).second);
  };
  insert([](AttentionPlanKey& key) { key.documents = 9; });
  insert([](AttentionPlanKey& key) { key.length = 9; });
  insert([](AttentionPlanKey& key) { key.rows = 9; });
  insert([](AttentionPlanKey& key) { key.heads = 9; });
  insert([](AttentionPlanKey& key) { key.kv_heads = 4; });
  insert([](AttentionPlanKey& key) { key.head_dim = 9; });
  insert([](AttentionPlanKey& key) { key.window = 9; });
  insert([](AttentionPlanKey& key) { key.scale = 0.5f; });
  insert([](AttentionPlanKey& key) { key.causal = false; });
  insert([](AttentionPlanKey& key) { key.ragged = true; });
  insert([](AttentionPlanKey& key) { key.backward = true; });
  insert([](AttentionPlanKey& key) { key.padded = true; });
  insert([](AttentionPlanKey& key) { key.deterministic = true; });
  insert([](AttentionPlanKey& key) { key.dropout = 0.5f; });
}

// cuDNN's random bits depend on the place of a document within its call.
TEST(AttentionPlanKey, PassesWithDropoutHaveSameCalls) {
  for (const int64_t document_length : {1024, 0}) {
    const Tensor qkv(nullptr, {1, 64 * 1024, 48, 64}, DType::bf16, kMeta);
    AttentionOptions options;
    options.mask.documents = Tensor(nullptr, {65}, DType::i32, kMeta);
    options.mask.document_length = document_length;
    options.padded_rows = {Tensor(nullptr, {64 * 1024}, DType::i32, kMeta), 1024};
    EXPECT_NE(attention_plan_key(qkv, options, false).documents,
              attention_plan_key(qkv, options, true).documents);
    options.dropout.probability = 0.1f;
    AttentionPlanKey forward = attention_plan_key(qkv, options, false);
    forward.backward = true;
    EXPECT_EQ(forward, attention_plan_key(qkv, options, true));
  }
}

TEST(AttentionPlanKey, PadsGradientsUnlessMultipleOf128Rows) {
  const auto padded = [](int64_t length, bool backward) {
    const Tensor qkv(nullptr, {4, length, 48, 64}, DType::bf16, kMeta);
    AttentionOptions options;
    options.mask.documents = Tensor(nullptr, {5}, DType::i32, kMeta);
    options.mask.document_length = length;
    return attention_plan_key(qkv, options, backward).padded;
  };
  EXPECT_TRUE(padded(192, true));
  EXPECT_TRUE(padded(100, true));
  EXPECT_FALSE(padded(256, true));
  EXPECT_FALSE(padded(192, false));
}

TEST(AttentionPlanKey, DetectsOffsetsBeyond32Bits) {
  EXPECT_TRUE(offsets_fit(key_of(4096, 8, 512)));
  EXPECT_FALSE(offsets_fit(key_of(1 << 20, 1 << 11, 512)));
}

}  // namespace
}  // namespace tessera::cuda
