#include "parallel/layers/low_rank_adapter.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "core/arena.h"
#include "core/ops/elementwise.h"
#include "parallel/layers/column_parallel_linear.h"
#include "parallel/layers/row_parallel_linear.h"
#include "parallel/partial_gradients.h"
#include "tests/support/runs/device_ranks.h"
#include "tests/support/runs/shards.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using Matrix = std::vector<double>;

constexpr int64_t kIn = 10, kInner = 12, kOut = 9, kRows = 7, kRank = 3;
constexpr float kScale = 0.75f;
constexpr double kDropout = 0.25;
constexpr uint64_t kSeed = 42;
constexpr uint32_t kStep = 3;
constexpr int64_t kFirstSequence = 2;

/// out (m, n) = x (m, k) × y (k, n).
Matrix product(const Matrix& x, const Matrix& y, int64_t m, int64_t k, int64_t n) {
  Matrix out(static_cast<size_t>(m * n));
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0.0;
      for (int64_t l = 0; l < k; ++l) {
        sum += x[static_cast<size_t>(i * k + l)] * y[static_cast<size_t>(l * n + j)];
      }
      out[static_cast<size_t>(i * n + j)] = sum;
    }
  }
  return out;
}

Matrix transposed(const Matrix& x, int64_t rows, int64_t columns) {
  Matrix out(x.size());
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      out[static_cast<size_t>(j * rows + i)] = x[static_cast<size_t>(i * columns + j)];
    }
  }
  return out;
}

Matrix values(const std::string& name, int64_t count) {
  return test::to_doubles(
      test::random_tensor({count}, DType::f32, std::hash<std::string>()(name)).tensor);
}

/// The textbook layer y = x Wᵀ + scale × dropout(x) (B A)ᵀ, and its gradients.
struct Reference {
  Reference(const std::string& layer, int64_t in_features, int64_t out_features, double dropout)
      : in(in_features), out(out_features) {
    weight = values(layer + ".weight", out * in);
    a = values(layer + ".lora_a", kRank * in);
    b = values(layer + ".lora_b", out * kRank);
    added = product(b, a, out, kRank, in);
    for (double& value : added) value *= double{kScale};
    const RandomKey key{seed_for(kSeed, layer), RandomPurpose::adapter_dropout, 0, kStep};
    const auto threshold = static_cast<uint32_t>(dropout * 0x1p32);
    const auto first = static_cast<uint64_t>(kFirstSequence * kRows * in);
    for (uint64_t i = 0; i < static_cast<uint64_t>(kRows * in); ++i) {
      const bool dropped = random_bits(key, first + i) < threshold;
      kept.push_back(dropped ? 0.0 : 1.0 / (1.0 - dropout));
    }
  }
  Matrix forward(const Matrix& x) {
    const Matrix y = product(x, transposed(weight, out, in), kRows, in, out);
    return sum(y, product(times(x, kept), transposed(added, out, in), kRows, in, out));
  }
  /// Returns dx.
  Matrix backward(const Matrix& x, const Matrix& dy) {
    dweight = product(transposed(dy, kRows, out), x, out, kRows, in);
    const Matrix dadded = product(transposed(dy, kRows, out), times(x, kept), out, kRows, in);
    db = product(dadded, transposed(a, kRank, in), out, in, kRank);
    da = product(transposed(b, out, kRank), dadded, kRank, out, in);
    for (double& value : db) value *= double{kScale};
    for (double& value : da) value *= double{kScale};
    return sum(product(dy, weight, kRows, out, in),
               times(product(dy, added, kRows, out, in), kept));
  }

  static Matrix sum(Matrix x, const Matrix& y) {
    for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
    return x;
  }
  static Matrix times(Matrix x, const Matrix& y) {
    for (size_t i = 0; i < x.size(); ++i) x[i] *= y[i];
    return x;
  }

  int64_t in, out;
  Matrix weight, a, b, added, kept, dweight, da, db;
};

LinearSpec spec(const char* name, int64_t in, int64_t out, double dropout) {
  LinearSpec spec{name, in, out};
  spec.bias = false;
  spec.adapter = {kRank, kScale, dropout};
  return spec;
}

/// Gives this rank's shard of a parameter the values of its name.
void fill_shard(const Parameter& parameter) {
  const Matrix shard =
      test::shard_of(values(parameter.name, parameter.global_shape.numel()), parameter);
  const OwnedTensor host(parameter.real_shape(), DType::f32);
  for (size_t i = 0; i < shard.size(); ++i) {
    host.tensor.data<float>()[i] = static_cast<float>(shard[i]);
  }
  copy(host.tensor, parameter.real_part(parameter.value()));
}

/// Compares two layers, which have adapters with this dropout and are in training or not, with
/// references, on ranks that share features and rows unequally, one of which has no features. The
/// base weights are trained in one case and frozen in the other.
void expect_reference(double dropout, bool training) {
  const double of_reference = training ? dropout : 0.0;
  Reference up("up", kIn, kInner, of_reference), down("down", kInner, kOut, of_reference);
  const Matrix x = values("x", kRows * kIn), dy = values("dy", kRows * kOut);
  const Matrix hidden = up.forward(x), y = down.forward(hidden);
  const Matrix dx = up.backward(x, down.backward(hidden, dy));
  const std::map<std::string, const Matrix*> gradients = {
      {"up.weight", &up.dweight},     {"up.lora_a", &up.da},     {"up.lora_b", &up.db},
      {"down.weight", &down.dweight}, {"down.lora_a", &down.da}, {"down.lora_b", &down.db}};
  for (const int ranks : {1, 2, 4, 5}) {
    for (const bool rows_split : {false, true}) {
      for (const bool frozen : {false, true}) {
        SCOPED_TRACE(
            fmt::format("{} ranks, rows split: {}, frozen: {}", ranks, rows_split, frozen));
        test::run_device_ranks(ranks, [&](Communicator& tp) {
          ParameterStore store;
          LinearSpec wide = spec("up", kIn, kInner, dropout);
          LinearSpec narrow = spec("down", kInner, kOut, dropout);
          wide.unit = narrow.unit = 3;  // 4 units, so the last of 5 ranks has no features
          ColumnParallelLinear first(store, wide, tp);
          RowParallelLinear second(store, narrow, tp);
          store.freeze([&](const Parameter& parameter) {
            return frozen && !is_of_low_rank_adapter(parameter.name);
          });
          if (rows_split) store.shard_rows();
          store.allocate(test::test_device(), DType::f32, StoreFor::training);
          store.invalidate_grads();
          for (const Parameter& parameter : store.parameters()) fill_shard(parameter);

          Arena arena(test::test_device(), size_t{1} << 20);
          StepContext ctx{arena};
          ctx.training = training;
          ctx.seed = kSeed;
          ctx.step = kStep;
          ctx.first_sequence = kFirstSequence;
          ctx.padded_rows.seq_length = kRows;
          if (rows_split) ctx.rows = SequenceShard{tp.size(), tp.rank()}.of(kRows);
          const Range local = ctx.rows.split() ? ctx.rows.local() : Range{0, kRows};
          const auto rows_of = [&](const Matrix& whole, int64_t columns) {
            return Matrix(whole.begin() + local.begin * columns,
                          whole.begin() + local.end * columns);
          };
          const auto tensor_of = [&](const Matrix& whole, int64_t columns) {
            return test::from_doubles(rows_of(whole, columns), {local.size(), columns}, DType::f32);
          };
          const test::TestTensor in = tensor_of(x, kIn), dout = tensor_of(dy, kOut);
          const test::TestTensor din({local.size(), kIn}, DType::f32);
          const Tensor inner = first.forward(ctx, in.tensor);
          const Tensor out = second.forward(ctx, inner);
          const test::TestTensor dinner(inner.shape(), DType::f32);
          second.backward(ctx, dout.tensor, dinner.tensor);
          first.backward(ctx, dinner.tensor, din.tensor);
          if (tp.size() > 1) PartialGradients(store, tp).sum(arena);

          // The gradient of A in the first layer is four products after x.
          const double tolerance = 4 * test::sum_tolerance(DType::f32, kInner * kRank);
          test::expect_close(out, rows_of(y, kOut), tolerance, "y");
          test::expect_close(din.tensor, rows_of(dx, kIn), tolerance, "dx");
          for (const Parameter& parameter : store.parameters()) {
            if (parameter.frozen) continue;
            test::expect_close(parameter.real_part(parameter.grad()),
                               test::shard_of(*gradients.at(parameter.name), parameter), tolerance,
                               parameter.name.c_str());
          }
        });
      }
    }
  }
}

TEST(LowRankAdapter, EqualsReferenceWithGradients) { expect_reference(0.0, /*training=*/true); }

TEST(LowRankAdapter, DropsElementsOfItsInputByTheirGlobalIndex) {
  expect_reference(kDropout, /*training=*/true);
}

TEST(LowRankAdapter, DropsNothingInEvaluation) { expect_reference(kDropout, /*training=*/false); }

}  // namespace
}  // namespace tessera
