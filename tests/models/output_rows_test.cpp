#include "models/output_rows.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/arena.h"
#include "models/architecture.h"
#include "models/transformer.h"
#include "parallel/partial_gradients.h"
#include "tests/support/runs/device_ranks.h"
#include "tests/support/runs/shards.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

constexpr int64_t kLength = 12, kWidth = 32;

/// Two rows with documents of 7 and 10 tokens. The first token of the first one has a target, so it
/// is read twice.
class TwoDocuments {
 public:
  TwoDocuments() {
    std::vector<int32_t> places, positions;
    for (int32_t row = 0; row < 17; ++row) {
      positions.push_back(row < 7 ? row : row - 7);
      places.push_back(positions.back() + (row < 7 ? 0 : static_cast<int32_t>(kLength)));
    }
    places_ = test::from_ints(places, {17});
    positions_ = test::from_ints(positions, {17});
    documents_ = test::from_ints(std::vector<int32_t>{0, 7, 17}, {3});
    targets_ = test::from_ints(std::vector<int32_t>{0, 5, 8, 16}, {4});
  }

  TokenBatch batch() const {
    TokenBatch batch;
    batch.sequences = 2;
    batch.seq_length = kLength;
    batch.tokens = batch.token_types = batch.positions = positions_.tensor;
    batch.padded_rows = places_.tensor;
    batch.documents = documents_.tensor;
    batch.target_rows = batch.targets = targets_.tensor;
    return batch;
  }

 private:
  test::TestTensor places_, positions_, documents_, targets_;
};

const std::vector<int64_t> kRead = {0, 5, 8, 16, 0, 7};

struct Case {
  const char* name;
  ModelConfig config;
  Recompute recompute = Recompute::none;
};

std::vector<Case> cases() {
  ModelConfig config = preset(ModelKind::bert);
  config.num_layers = 2;
  config.hidden_size = kWidth;
  config.num_heads = 4;
  config.seq_length = kLength;
  config.dropout = 0.2;
  config.attention_dropout = 0.1;
  config.init_stddev = 0.2;
  ModelConfig pre_norm = config;
  pre_norm.norm_position = NormPosition::pre;
  ModelConfig qwen = config;
  apply_preset(qwen, ModelKind::qwen3);
  qwen.num_kv_heads = 2;
  ModelConfig adapted = pre_norm;
  adapted.lora_rank = 2;
  adapted.lora_dropout = 0.3;
  return {{"post-norm", config},
          {"post-norm, recomputed", config, Recompute::block},
          {"pre-norm", pre_norm},
          {"pre-norm, GELU recomputed", pre_norm, Recompute::activation},
          {"gated, rotary, QK norm", qwen},
          {"adapters", adapted}};
}

/// What one rank has of a pass.
struct Pass {
  std::vector<double> y, dx;  ///< local rows
  std::map<std::string, std::vector<double>> gradients;
};

/// Rows of a matrix with kWidth columns.
std::vector<double> rows_of(const std::vector<double>& matrix, const std::vector<int64_t>& rows) {
  std::vector<double> result;
  for (const int64_t row : rows) {
    const auto begin = matrix.begin() + row * kWidth;
    result.insert(result.end(), begin, begin + kWidth);
  }
  return result;
}

std::vector<int64_t> numbers(Range range) {
  std::vector<int64_t> result;
  for (int64_t i = range.begin; i < range.end; ++i) result.push_back(i);
  return result;
}

test::TestTensor local_rows(const std::vector<double>& whole, Range local) {
  return test::from_doubles(rows_of(whole, numbers(local)), {1, local.size(), kWidth}, DType::f32);
}

/// A pass over the rows that are read or over all rows; `gradient` has those of the output.
Pass run_pass(const Case& test_case, Communicator& tp, bool sequence, bool only_read,
              const std::vector<double>& gradient,
              const std::function<void(const ParameterStore&)>& look = {}) {
  const TwoDocuments documents;
  const TokenBatch batch = documents.batch();
  ParameterStore store;
  Transformer transformer(store, test_case.config, tp);
  if (sequence) store.shard_rows();
  store.allocate(test::test_device(), DType::f32, StoreFor::training);
  store.initialize(3);
  Arena arena(test::test_device(), size_t{8} << 20);
  StepContext outer{arena};
  outer.training = true;
  outer.recompute = test_case.recompute;
  if (sequence) outer.rows = {tp.size(), tp.rank()};
  const StepContext ctx = context_for(outer, batch);
  const std::vector<double> x =
      test::to_doubles(test::random_tensor({17, kWidth}, DType::f32, 1).tensor);
  std::optional<OutputRows> outputs;
  if (only_read) {
    outputs = output_batch(ctx, batch, {.targets = true, .first_tokens = true})->rows;
  }
  const test::TestTensor input = local_rows(x, ctx.rows.local());
  const Tensor y =
      transformer.forward(ctx, input.tensor, mask_of(batch), batch.positions, nullptr, outputs);
  Pass pass{test::to_doubles(y), {}, {}};
  const test::TestTensor dy =
      local_rows(gradient, outputs ? outputs->rows.local() : ctx.rows.local());
  pass.dx = test::to_doubles(transformer.backward(ctx, dy.tensor));
  arena.reset();
  PartialGradients(store, tp).sum(arena);
  for (const Parameter& parameter : store.parameters()) {
    pass.gradients[parameter.name] = test::to_doubles(parameter.real_part(parameter.grad()));
  }
  if (look) look(store);
  return pass;
}

TEST(OutputRows, PassOverThemMatchesOneOverAllRows) {
  const auto read = std::ssize(kRead);
  const std::vector<double> dy =
      test::to_doubles(test::random_tensor({read, kWidth}, DType::f32, 2).tensor);
  std::vector<double> of_all(17 * kWidth);
  for (int64_t m = 0; m < read; ++m) {
    for (int64_t c = 0; c < kWidth; ++c) {
      of_all[static_cast<size_t>(kRead[static_cast<size_t>(m)] * kWidth + c)] +=
          dy[static_cast<size_t>(m * kWidth + c)];
    }
  }
  // Sums of up to 128 products, two layers deep, forward and backward, in two results.
  const double tolerance = 8 * test::sum_tolerance(DType::f32, 128);
  for (const Case& test_case : cases()) {
    SCOPED_TRACE(test_case.name);
    Pass all;
    test::run_device_ranks(
        1, [&](Communicator& tp) { all = run_pass(test_case, tp, false, false, of_all); });
    for (const auto& [ranks, sequence] : {std::pair{1, false}, {2, false}, {2, true}, {4, true}}) {
      SCOPED_TRACE(fmt::format("{} ranks{}", ranks, sequence ? ", sequence parallelism" : ""));
      test::run_device_ranks(ranks, [&](Communicator& tp) {
        const auto compare_gradients = [&](const ParameterStore& store) {
          for (const Parameter& parameter : store.parameters()) {
            // The key bias shifts all scores of a query equally, so its gradient is only rounding
            // error.
            if (parameter.name.find("qkv.bias") != std::string::npos) continue;
            test::expect_close(parameter.real_part(parameter.grad()),
                               test::shard_of(all.gradients.at(parameter.name), parameter),
                               tolerance, parameter.name.c_str());
          }
        };
        const Pass pass = run_pass(test_case, tp, sequence, true, dy, compare_gradients);
        const SequenceShard whole = {sequence ? tp.size() : 1, sequence ? tp.rank() : 0, 17};
        const Range outputs = whole.of(read).local();
        const std::vector<double> expected = rows_of(rows_of(all.y, kRead), numbers(outputs));
        test::expect_close(pass.y, expected, tolerance, "y");
        test::expect_close(pass.dx, rows_of(all.dx, numbers(whole.local())), tolerance, "dx");
      });
    }
  }
}

TEST(OutputRows, BatchOfThemHasOneTokenPerDocumentAndTarget) {
  const TwoDocuments documents;
  Arena arena(test::test_device(), size_t{1} << 20);
  const TokenBatch batch = documents.batch();
  const StepContext ctx = context_for(StepContext{arena}, batch);
  const auto read = output_batch(ctx, batch, {.targets = true, .first_tokens = true});
  ASSERT_TRUE(read.has_value());
  using Numbers = std::vector<double>;
  EXPECT_EQ(test::to_doubles(read->rows.index), (Numbers{0, 5, 8, 16, 0, 7}));
  EXPECT_EQ(test::to_doubles(read->batch.padded_rows), (Numbers{0, 5, 13, 21, 0, 12}));
  EXPECT_EQ(test::to_doubles(read->batch.target_rows), (Numbers{0, 1, 2, 3}));
  EXPECT_EQ(test::to_doubles(read->batch.documents), (Numbers{4, 5, 6}));
  EXPECT_EQ(read->batch.num_tokens(), 6);
  EXPECT_EQ(read->batch.num_documents(), 2);
}

TEST(OutputRows, AreAllRowsIfMoreThanHalfAreRead) {
  const ReadByHeads targets{.targets = true}, both{.targets = true, .first_tokens = true};
  EXPECT_EQ(targets.count(100, 50, 9), 50);
  EXPECT_EQ(targets.count(100, 51, 0), 100);
  EXPECT_EQ(targets.count(100, 0, 9), 0);
  EXPECT_EQ(both.count(100, 20, 9), 29);
  EXPECT_EQ(both.count(100, 45, 9), 100);
  EXPECT_EQ(ReadByHeads{.all = true}.count(100, 0, 0), 100);
  EXPECT_EQ(targets.count(0, 0, 0), 0);
}

}  // namespace
}  // namespace tessera
