#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/arena.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/elementwise.h"
#include "core/trace/work_log.h"
#include "parallel/layers/vocab_parallel_embedding.h"
#include "parallel/layers/vocab_parallel_loss.h"
#include "parallel/meta_communicator.h"
#include "tests/support/runs/device_ranks.h"
#include "tests/support/runs/shards.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

constexpr int64_t kVocab = 37, kWidth = 12;

/// Textbook loss and gradients, in double precision.
struct TextbookLoss {
  double loss = 0.0;
  double correct = 0.0;
  std::vector<double> losses, margins;  // of rows with a target, in order
  std::vector<double> dx, dtable, dbias;

  TextbookLoss(const std::vector<double>& x, const std::vector<double>& table,
               const std::vector<double>& bias, const std::vector<double>& targets, double scale)
      : dx(x.size(), 0.0), dtable(table.size(), 0.0), dbias(bias.size(), 0.0) {
    for (size_t n = 0; n < targets.size(); ++n) {
      if (targets[n] < 0) continue;
      const auto target = static_cast<size_t>(targets[n]);
      std::vector<double> p(kVocab);
      for (size_t v = 0; v < p.size(); ++v) {
        p[v] = std::exp(std::inner_product(&x[n * kWidth], &x[n * kWidth] + kWidth,
                                           &table[v * kWidth], bias[v]));
      }
      const double largest = *std::max_element(p.begin(), p.end());
      margins.push_back(std::log(p[target] / largest));
      if (p[target] == largest) ++correct;
      const double sum = std::accumulate(p.begin(), p.end(), 0.0);
      losses.push_back(-std::log(p[target] / sum));
      loss += losses.back();
      for (size_t v = 0; v < p.size(); ++v) {
        const double g = scale * (p[v] / sum - (v == target ? 1.0 : 0.0));
        dbias[v] += g;
        for (size_t c = 0; c < kWidth; ++c) {
          dx[n * kWidth + c] += g * table[v * kWidth + c];
          dtable[v * kWidth + c] += g * x[n * kWidth + c];
        }
      }
    }
  }
};

class VocabParallel : public testing::TestWithParam<int64_t> {};

TEST_P(VocabParallel, LossAndGradientsMatchReference) {
  const int64_t rows = GetParam();
  const test::TestTensor x = test::random_tensor({rows, kWidth}, DType::f32, 1);
  const test::TestTensor table = test::random_tensor({kVocab, kWidth}, DType::f32, 2, 0.5f);
  test::TestTensor targets = test::random_ints({rows}, 0, kVocab, 3);
  targets.tensor.data<int32_t>()[rows / 2] = kIgnoreTarget;
  const float scale = 0.25f;
  const auto whole = test::to_doubles(table.tensor);
  const auto bias = test::to_doubles(test::random_tensor({kVocab}, DType::f32, 5).tensor);
  const TextbookLoss expected(test::to_doubles(x.tensor), whole, bias,
                              test::to_doubles(targets.tensor), double{scale});

  // On 4 ranks, the last one has no vocabulary entry. Emulated GPUs are slow with many rows.
  const bool few = test::on_gpu() && rows > VocabParallelLoss::kChunkRows;
  for (const int ranks : few ? std::vector{1, 4} : std::vector{1, 2, 3, 4}) {
    test::run_device_ranks(ranks, [&](Communicator& tp) {
      ParameterStore store;
      VocabParallelEmbedding words(store, "words", kVocab, kWidth, 0.02f, tp);
      Parameter& parameter = words.table();
      VocabParallelLoss head(parameter, words.vocab(), tp);
      head.declare_bias(store, "bias");
      store.allocate(test::test_device(), DType::f32, StoreFor::training);
      const Parameter& biases = store.parameters().back();
      const auto shard = test::shard_of(whole, parameter),
                 bias_shard = test::shard_of(bias, biases);
      std::copy(shard.begin(), shard.end(), parameter.value().data<float>());
      std::copy(bias_shard.begin(), bias_shard.end(), biases.value().data<float>());

      Arena arena(test::test_device(), size_t{8} << 20);
      const StepContext ctx{arena};
      test::TestTensor dx({rows, kWidth}, DType::f32), loss({1}, DType::f64),
          loss_only({1}, DType::f64);
      test::TestTensor correct({1}, DType::f64);
      test::TestTensor losses({rows}, DType::f32), margins({rows}, DType::f32);
      head.loss(ctx, x.tensor, targets.tensor, loss_only.tensor, correct.tensor,
                {losses.tensor, margins.tensor});
      head.loss_and_gradient(ctx, x.tensor, targets.tensor, scale, loss.tensor, dx.tensor);
      const double tolerance = test::sum_tolerance(DType::f32, kVocab);
      EXPECT_NEAR(loss.tensor.span<double>()[0], expected.loss, tolerance * expected.loss);
      EXPECT_EQ(loss_only.tensor.span<double>()[0], loss.tensor.span<double>()[0]);
      EXPECT_EQ(correct.tensor.span<double>()[0], expected.correct);
      const auto of_targets = [&](const test::TestTensor& tensor) {
        std::vector<double> values = test::to_doubles(tensor.tensor);
        values.erase(values.begin() + rows / 2);  // it has no target
        return values;
      };
      test::expect_close(of_targets(losses), expected.losses, tolerance, "losses");
      const std::vector<double> found = of_targets(margins);
      test::expect_close(found, expected.margins, tolerance, "margins");
      // Exactly 0, whichever rank has the target and the largest logit.
      EXPECT_EQ(std::ranges::count(found, 0.0), static_cast<int64_t>(expected.correct));
      test::expect_close(dx.tensor, expected.dx, 4 * tolerance, "dx");
      test::expect_close(parameter.real_part(parameter.grad()),
                         test::shard_of(expected.dtable, parameter),
                         4 * test::sum_tolerance(DType::f32, rows), "dtable");
      test::expect_close(biases.real_part(biases.grad()), test::shard_of(expected.dbias, biases),
                         4 * test::sum_tolerance(DType::f32, rows), "dbias");
      for (int64_t i = words.vocab().local.size(); i < words.vocab().padded; ++i) {
        for (const float g : parameter.grad().slice(i, i + 1).span<float>()) EXPECT_EQ(g, 0.0f);
      }

      test::TestTensor logits({rows, kVocab}, DType::f32);
      head.whole_logits(ctx, x.tensor, logits.tensor);
      std::vector<double> products;
      for (int64_t n = 0; n < rows; ++n) {
        for (int64_t v = 0; v < kVocab; ++v) {
          const float* row = x.tensor.data<float>() + n * kWidth;
          products.push_back(std::inner_product(row, row + kWidth,
                                                &whole[static_cast<size_t>(v * kWidth)],
                                                bias[static_cast<size_t>(v)]));
        }
      }
      test::expect_close(logits.tensor, products, test::sum_tolerance(DType::f32, kWidth),
                         "logits");
    });
  }
}

/// How often a dry run of loss_and_gradient() calls `op`, on one of `ranks` tensor ranks.
int64_t calls(const char* op, int ranks) {
  MetaCommunicator tp(0, ranks);
  ParameterStore store;
  VocabParallelEmbedding words(store, "words", kVocab, kWidth, 0.02f, tp);
  VocabParallelLoss head(words.table(), words.vocab(), tp);
  store.allocate(kMeta, DType::bf16, StoreFor::training);
  constexpr int64_t kRows = VocabParallelLoss::kChunkRows + 1;
  const auto on_meta = [](const Shape& shape, DType dtype) {
    return Tensor(nullptr, shape, dtype, kMeta);
  };
  Arena arena(kMeta);
  WorkLog log;
  const WorkLog::Scope scope(&log);
  head.loss_and_gradient(StepContext{arena}, on_meta({kRows, kWidth}, DType::bf16),
                         on_meta({kRows}, DType::i32), 1.0f, on_meta({1}, DType::f64),
                         on_meta({kRows, kWidth}, DType::bf16));
  return std::count_if(log.events().begin(), log.events().end(),
                       [&](const auto& event) { return event.op == op; });
}

TEST(VocabParallelLossTest, OneRankReadsLogitsOnce) {
  EXPECT_EQ(calls("cross_entropy_with_gradient", 1), 2);  // chunks
  EXPECT_EQ(calls("cross_entropy_statistics", 1) + calls("cross_entropy_gradient", 1), 0);
  EXPECT_EQ(calls("cross_entropy_with_gradient", 2), 0);
  EXPECT_EQ(calls("cross_entropy_statistics", 2), 2);
}

// One test with more rows than a chunk.
INSTANTIATE_TEST_SUITE_P(Rows, VocabParallel,
                         testing::Values(5, VocabParallelLoss::kChunkRows + 3));

TEST(VocabParallelEmbeddingTest, LooksUpRowsOfAllRanks) {
  const test::TestTensor table = test::random_tensor({kVocab, kWidth}, DType::f32, 2);
  const test::TestTensor ids = test::random_ints({2, 9}, 0, kVocab, 4);
  const auto whole = test::to_doubles(table.tensor);
  std::vector<double> expected;
  for (const int32_t id : ids.tensor.span<int32_t>()) {
    const auto row = whole.begin() + id * kWidth;
    expected.insert(expected.end(), row, row + kWidth);
  }
  for (const int ranks : {1, 2, 4}) {
    test::run_device_ranks(ranks, [&](Communicator& tp) {
      ParameterStore store;
      VocabParallelEmbedding words(store, "words", kVocab, kWidth, 0.02f, tp);
      store.allocate(test::test_device(), DType::f32, StoreFor::training);
      const auto shard = test::shard_of(whole, words.table());
      std::copy(shard.begin(), shard.end(), words.table().value().data<float>());
      Arena arena(test::test_device(), size_t{1} << 20);
      test::expect_close(words.forward(StepContext{arena}, ids.tensor), expected, 0.0, "rows");
    });
  }
}

}  // namespace
}  // namespace tessera
