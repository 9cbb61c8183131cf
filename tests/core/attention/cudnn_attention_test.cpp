#include "core/ops/cuda/attention/cudnn_attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string_view>

#include "core/cuda/graph.h"
#include "core/cuda/runtime.h"
#include "core/deterministic.h"
#include "core/ops/device_ops.h"
#include "tests/support/attention/attention_reference.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using namespace test;

/// Whether cuDNN can run here: a real one, or the emulated one with TESSERA_EMULATOR_CUDNN=1.
bool cudnn_is_here() {
  if constexpr (cuda::kHasCudnn) {
    const char* value = std::getenv("TESSERA_EMULATOR_CUDNN");
    const bool is_on = value != nullptr && std::string_view(value) == "1";
    return on_gpu() && (is_on || !cuda::is_emulated());
  }
  return false;
}

class CudnnAttention : public testing::Test {
 protected:
  void SetUp() override {
    if (!cudnn_is_here()) GTEST_SKIP() << "cuDNN is not available";
  }
};

struct Case {
  const char* name;
  bool causal;
  int64_t window;
  std::vector<int> lengths;    // of sequences
  std::vector<int> documents;  // cumulative
  int64_t document_length = 0;
};

// Three sequences of 36 rows: lengths leave one complete, one empty and one short.
constexpr int64_t kBatch = 3, kSeq = 36, kHeads = 4, kFeatures = 24;
const std::vector<int> kLengths = {36, 0, 5};
const std::vector<int> kRagged = {0, 7, 36, 37, 50, 72, 76, 108};
const std::vector<int> kDense = {0, 12, 24, 36, 48, 60, 72, 84, 96, 108};

const std::vector<Case> kCases = {
    {"lengths", false, 0, kLengths, {}},
    {"causal, lengths", true, 0, kLengths, {}},
    {"window, lengths", false, 4, kLengths, {}},
    {"causal, window, lengths", true, 4, kLengths, {}},
    {"window of one, lengths", false, 1, kLengths, {}},
    {"documents", false, 0, {}, kRagged},
    {"causal, window, documents", true, 4, {}, kRagged},
    {"window, documents of one length", false, 4, {}, kDense, 12},
    {"causal, documents of one length", true, 0, {}, kDense, 12},
    {"documents of one length", false, 0, {}, kDense, 12},
    {"lengths, documents", false, 0, kLengths, kRagged},
    {"causal, window, lengths, documents", true, 3, kLengths, kRagged},
    {"window, lengths, documents of one length", false, 3, kLengths, kDense, 12},
};

Shape qkv_shape(int64_t kv_heads) { return {kBatch, kSeq, kHeads + 2 * kv_heads, kFeatures}; }

/// The output, statistics and gradients of one implementation.
struct Results {
  TestTensor out{{kBatch, kSeq, kHeads, kFeatures}, DType::bf16};
  TestTensor log_sum_exp{{kBatch, kHeads, kSeq}, DType::f32};
  TestTensor dqkv;

  explicit Results(int64_t kv_heads = kHeads) : dqkv(qkv_shape(kv_heads), DType::bf16) {}
};

AttentionReference reference_of(const AttentionOptions& options) {
  const AttentionMask mask = options.mask;
  return {kBatch,
          kSeq,
          kHeads,
          kFeatures,
          options.scale,
          [=](int64_t b, int64_t h, int64_t t, int64_t s) {
            return hides(mask, kSeq, kHeads, b, h, t, s);
          },
          [](int64_t, int64_t, int64_t, int64_t) { return 1.0; },
          {},
          options.kv_heads};
}

/// Exact zeros: for rows that see no key, and keys that no row sees.
void expect_zeros_where_nothing_is_seen(const AttentionMask& mask, const Results& results) {
  const auto out = to_doubles(results.out.tensor), dqkv = to_doubles(results.dqkv.tensor);
  constexpr int64_t kRow = kHeads * kFeatures;
  const int64_t row_of_qkv = results.dqkv.tensor.dim(2) * kFeatures;
  const auto expect_zeros = [](const std::vector<double>& values, int64_t begin, int64_t count) {
    for (int64_t i = begin; i < begin + count; ++i) {
      ASSERT_EQ(values[static_cast<size_t>(i)], 0) << "element " << i;
    }
  };
  for (int64_t b = 0; b < kBatch; ++b) {
    for (int64_t t = 0; t < kSeq; ++t) {
      bool sees = false, is_seen = false;
      for (int64_t other = 0; other < kSeq; ++other) {
        sees = sees || !hides(mask, kSeq, kHeads, b, 0, t, other);
        is_seen = is_seen || !hides(mask, kSeq, kHeads, b, 0, other, t);
      }
      const int64_t row = b * kSeq + t;
      if (!sees) {
        expect_zeros(out, row * kRow, kRow);
        expect_zeros(dqkv, row * row_of_qkv, kRow);
      }
      if (!is_seen) expect_zeros(dqkv, row * row_of_qkv + kRow, row_of_qkv - kRow);
    }
  }
}

TEST_F(CudnnAttention, MatchesReferenceAndKernelsForSupportedMasks) {
  if constexpr (cuda::kHasCudnn) {
    for (size_t i = 0; i < kCases.size(); ++i) {
      const Case& one = kCases[i];
      const int64_t kv_heads = i % 3 == 0 ? kHeads : i % 3;  // 1 or 2 groups
      SCOPED_TRACE(fmt::format("{}, {} key-value heads", one.name, kv_heads));
      TestTensor lengths, documents;
      AttentionOptions options;
      options.scale = 1.0f / std::sqrt(static_cast<float>(kFeatures));
      options.total_heads = kHeads;
      options.kv_heads = kv_heads;
      options.mask.causal = one.causal, options.mask.window = one.window;
      if (!one.lengths.empty()) {
        lengths = from_ints(one.lengths, {kBatch});
        options.mask.lengths = lengths.tensor;
      }
      if (!one.documents.empty()) {
        documents = from_ints(one.documents, {static_cast<int64_t>(one.documents.size())});
        options.mask.documents = documents.tensor;
        options.mask.document_length = one.document_length;
      }
      const TestTensor qkv = random_tensor(qkv_shape(kv_heads), DType::bf16, 1);
      const TestTensor dout = random_tensor({kBatch, kSeq, kHeads, kFeatures}, DType::bf16, 2);

      const Results cudnns(kv_heads), ours(kv_heads);
      ASSERT_TRUE(cuda::cudnn_attention_forward(qkv.tensor, options, cudnns.out.tensor,
                                                cudnns.log_sum_exp.tensor));
      const bool has_gradients =
          cuda::cudnn_attention_backward(dout.tensor, qkv.tensor, cudnns.out.tensor,
                                         cudnns.log_sum_exp.tensor, options, cudnns.dqkv.tensor);
      if (!has_gradients) {  // as for ragged documents on an A100
        ASSERT_FALSE(cuda::is_emulated());
        cuda::attention_backward(dout.tensor, qkv.tensor, cudnns.out.tensor,
                                 cudnns.log_sum_exp.tensor, options, cudnns.dqkv.tensor);
      }
      cuda::attention_forward(qkv.tensor, options, ours.out.tensor, ours.log_sum_exp.tensor);
      cuda::attention_backward(dout.tensor, qkv.tensor, ours.out.tensor, ours.log_sum_exp.tensor,
                               options, ours.dqkv.tensor);

      const double tolerance =
          sum_tolerance(DType::bf16, kFeatures) * 4 + sum_tolerance(DType::bf16, kSeq);
      const AttentionReference reference = reference_of(options);
      const auto textbook = reference.forward(to_doubles(qkv.tensor));
      const auto gradients = reference.backward(to_doubles(qkv.tensor), to_doubles(dout.tensor));
      expect_close(cudnns.out.tensor, textbook.out, tolerance, "out");
      expect_close(cudnns.log_sum_exp.tensor, textbook.log_sum_exp,
                   sum_tolerance(DType::f32, kFeatures) * 4, "log_sum_exp");
      expect_close(cudnns.dqkv.tensor, gradients, 4 * tolerance, "dqkv");
      expect_close(cudnns.out.tensor, to_doubles(ours.out.tensor), 2 * tolerance, "our out");
      expect_close(cudnns.log_sum_exp.tensor, to_doubles(ours.log_sum_exp.tensor),
                   sum_tolerance(DType::f32, kFeatures) * 8, "our log_sum_exp");
      expect_close(cudnns.dqkv.tensor, to_doubles(ours.dqkv.tensor), 8 * tolerance, "our dqkv");

      expect_zeros_where_nothing_is_seen(options.mask, cudnns);
    }
  }
}

TEST_F(CudnnAttention, GradientsHaveSameBitsIfDeterministic) {
  if constexpr (cuda::kHasCudnn) {
    const TestTensor qkv = random_tensor({kBatch, kSeq, 3 * kHeads, kFeatures}, DType::bf16, 1);
    const TestTensor dout = random_tensor({kBatch, kSeq, kHeads, kFeatures}, DType::bf16, 2);
    const TestTensor documents = from_ints(kDense, {static_cast<int64_t>(kDense.size())});
    AttentionOptions options;
    options.mask.causal = true;
    options.mask.documents = documents.tensor;
    options.mask.document_length = kDense[1];
    const Results results;
    ASSERT_TRUE(cuda::cudnn_attention_forward(qkv.tensor, options, results.out.tensor,
                                              results.log_sum_exp.tensor));
    const auto gradients = [&] {
      EXPECT_TRUE(cuda::cudnn_attention_backward(dout.tensor, qkv.tensor, results.out.tensor,
                                                 results.log_sum_exp.tensor, options,
                                                 results.dqkv.tensor));
      return to_doubles(results.dqkv.tensor);
    };
    EXPECT_EQ(gradients(), gradients());
    use_deterministic_algorithms(false);
    const bool same = gradients() == gradients();
    use_deterministic_algorithms(true);
    if (cuda::is_emulated()) {
      EXPECT_FALSE(same);
    }
  }
}

TEST_F(CudnnAttention, GraphOutlivesEvictedPlan) {
  if constexpr (cuda::kHasCudnn) {
    if (!cuda::is_emulated()) GTEST_SKIP() << "compiling a hundred plans takes minutes";
    const TestTensor qkv = random_tensor({1, 8, 3, 8}, DType::bf16, 1);
    const TestTensor lengths = from_ints(std::vector{5}, {1});
    const TestTensor out({1, 8, 1, 8}, DType::bf16), log_sum_exp({1, 1, 8}, DType::f32);
    AttentionOptions options;
    options.mask.lengths = lengths.tensor;
    const auto run = [&](float scale) {
      options.scale = scale;
      ASSERT_TRUE(
          cuda::cudnn_attention_forward(qkv.tensor, options, out.tensor, log_sum_exp.tensor));
    };
    run(1.0f);
    const TestTensor expected = copy_of(out.tensor);
    const cuda::Graph graph([&] { run(1.0f); });
    for (int i = 2; i < 100; ++i) run(1.0f / static_cast<float>(i));
    graph.launch();
    expect_same_bits(out.tensor, expected.tensor, "out");
  }
}

TEST_F(CudnnAttention, DeclinesUnsupportedArguments) {
  if constexpr (cuda::kHasCudnn) {
    const TestTensor qkv = random_tensor({kBatch, kSeq, 3 * kHeads, kFeatures}, DType::bf16, 1);
    const TestTensor lengths = from_ints(kLengths, {kBatch});
    const TestTensor additive = random_tensor({kSeq, kSeq}, DType::f32, 2);
    const Results results;
    AttentionOptions options;
    options.total_heads = kHeads;
    const auto is_taken = [&] {
      return cuda::cudnn_attention_forward(qkv.tensor, options, results.out.tensor,
                                           results.log_sum_exp.tensor);
    };
    EXPECT_FALSE(is_taken()) << "without documents or lengths";
    options.mask.lengths = lengths.tensor;
    EXPECT_TRUE(is_taken());
    options.dropout.probability = 0.5f;
    EXPECT_FALSE(is_taken()) << "with dropout";
    options.dropout.probability = 0;
    options.mask.additive = additive.tensor;
    EXPECT_FALSE(is_taken()) << "with planes";
  }
}

}  // namespace
}  // namespace tessera
