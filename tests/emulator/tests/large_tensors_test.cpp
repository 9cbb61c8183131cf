// Kernels on tensors of more than 2³² elements, so that an index of 32 bits, signed or not, reaches
// another element. Only the last blocks of each grid run, and only the pages that they access take
// memory. The last row is random, all others are zero, and the results must have the bits of a
// small tensor that consists of the last row.

#include <gtest/gtest.h>

#include <algorithm>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "core/checked.h"
#include "core/cuda/device_code.h"
#include "core/cuda/launch.h"
#include "core/cuda/runtime.h"
#include "core/cuda/workspace.h"
#include "core/ops/activation.h"
#include "core/ops/adamw.h"
#include "core/ops/attention.h"
#include "core/ops/columns.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/cuda/column_sums.h"
#include "core/ops/cuda/embedding/order_keys.h"
#include "core/ops/cuda/matmul/matmul.h"
#include "core/ops/dropout.h"
#include "core/ops/elementwise.h"
#include "core/ops/ema.h"
#include "core/ops/embedding.h"
#include "core/ops/key_values.h"
#include "core/ops/layer_norm.h"
#include "core/ops/lion.h"
#include "core/ops/muon.h"
#include "core/ops/positions.h"
#include "core/ops/reduce.h"
#include "core/ops/rotary.h"
#include "core/ops/rows.h"
#include "core/ops/stochastic_rounding.h"
#include "core/ops/tanh.h"
#include "tests/emulator/device_memory.h"
#include "tests/emulator/grid.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using namespace test;
using emulator::OnlyLastBlocks;

constexpr Device kGpu{DeviceType::cuda, 0};
constexpr int64_t k2To20 = int64_t{1} << 20, k2To32 = int64_t{1} << 32;

/// A tensor of zeros on the GPU that takes memory only where it is written.
class SparseTensor {
 public:
  SparseTensor(const Shape& shape, DType dtype) {
    const auto bytes = static_cast<size_t>(round_up(
        Tensor(nullptr, shape, dtype, kMeta).numel() * static_cast<int64_t>(size_of(dtype)), 256));
    data_ = emulator::allocate_sparse_device(bytes, 0);
    if (data_ == nullptr) throw std::bad_alloc();
    tensor = Tensor(data_, shape, dtype, kGpu);
  }
  ~SparseTensor() { emulator::free_device(data_); }
  SparseTensor(const SparseTensor&) = delete;
  SparseTensor& operator=(const SparseTensor&) = delete;

  Tensor tensor;

 private:
  void* data_ = nullptr;
};

/// The last row: element of the outermost dim.
Tensor end_of(const Tensor& tensor) { return tensor.slice(tensor.dim(0) - 1, tensor.dim(0)); }

OwnedTensor on_gpu(const Tensor& host) {
  OwnedTensor result(host.shape(), host.dtype(), kGpu);
  copy(host, result.tensor);
  cuda::synchronize();
  return result;
}

OwnedTensor on_host(const Tensor& tensor) {
  OwnedTensor result(tensor.shape(), tensor.dtype(), kCpu);
  copy(tensor, result.tensor);
  return result;
}

/// A large tensor, and a small one that consists of its last row.
struct Both {
  Both(const Shape& shape, DType dtype)
      : large(shape, dtype), small(end_of(large.tensor).shape(), dtype, kGpu) {}
  /// With the same random numbers in the last row.
  Both(const Shape& shape, DType dtype, uint64_t seed) : Both(shape, dtype) {
    set(random_tensor(small.tensor.shape(), dtype, seed).tensor);
  }

  void set(const Tensor& row) {
    copy(row, small.tensor);
    copy(small.tensor, end_of(large.tensor));
    cuda::synchronize();
  }

  /// Expects that the last rows have the same bits, and are not only zeros.
  void expect_same(const char* what) const {
    const OwnedTensor actual = on_host(end_of(large.tensor)), expected = on_host(small.tensor);
    expect_same_bits(actual.tensor, expected.tensor, what);
    const std::vector<double> values = to_doubles(expected.tensor);
    EXPECT_TRUE(std::ranges::any_of(values, [](double x) { return x != 0.0; })) << what;
  }

  SparseTensor large;
  OwnedTensor small;
};

/// Runs `op` on the small tensors, then on the large ones, of whose grids only the last `blocks`
/// run.
template <typename Op>
void run_both(const Op& op, uint64_t blocks = 1, std::vector<std::string> whole = {}) {
  op([](const Both& both) { return both.small.tensor; });
  cuda::synchronize();
  const OnlyLastBlocks only(blocks, std::move(whole));
  op([](const Both& both) { return both.large.tensor; });
  cuda::synchronize();
}

class LargeTensors : public ::testing::Test {
 protected:
  void SetUp() override { cuda::use_device(0); }
};
class LargeTensorsOf : public LargeTensors, public ::testing::WithParamInterface<DType> {};
INSTANTIATE_TEST_SUITE_P(All, LargeTensorsOf, ::testing::Values(DType::f32, DType::bf16),
                         name_of_dtype);

// --- a thread per element or pack
// ------------------------------------------------------------------ Grids have at most 4096 blocks
// of 256 threads. The number of elements is a multiple of that, also in packs of 8, so that the
// last block has the last elements.
constexpr int64_t kColumns = 256;
const Shape kElements{(k2To32 + 8 * k2To20) / kColumns, kColumns};

TEST_P(LargeTensorsOf, Elementwise) {
  const DType dtype = GetParam();
  const Both a(kElements, dtype, 1), b(kElements, dtype, 2), out(kElements, dtype);
  run_both([&](auto of) { add(of(a), of(b), of(out)); });
  out.expect_same("add");
  run_both([&](auto of) { activation_forward(of(a), Activation::gelu_tanh, of(out)); });
  out.expect_same("activation");
  run_both([&](auto of) { activation_backward(of(b), of(a), Activation::gelu, of(out)); });
  out.expect_same("activation_backward");
  run_both([&](auto of) { tanh_forward(of(a), of(out)); });
  out.expect_same("tanh");
  run_both([&](auto of) { tanh_backward(of(b), of(a), of(out)); });
  out.expect_same("tanh_backward");
  run_both([&](auto of) { fill(of(out), 1.5); });
  out.expect_same("fill");
}

TEST_F(LargeTensors, Conversion) {
  const Both x(kElements, DType::f32, 1), rounded(kElements, DType::bf16);
  run_both([&](auto of) { copy(of(x), of(rounded)); });
  rounded.expect_same("copy");
}

/// A dropout in which the last row of `tensor` has the same index for both tensors.
Dropout dropout_of(const Tensor& tensor, RandomPurpose purpose, int64_t rows) {
  Dropout dropout;
  dropout.probability = 0.5f;
  dropout.key = {1, purpose, 2, 3};
  dropout.first_row = rows - tensor.dim(0);
  return dropout;
}

TEST_P(LargeTensorsOf, Dropout) {
  const DType dtype = GetParam();
  const Both x(kElements, dtype, 1), residual(kElements, dtype, 2), out(kElements, dtype);
  const OwnedTensor bias = on_gpu(random_tensor({kColumns}, dtype, 3).tensor);
  const auto dropout = [&](auto of) {
    return dropout_of(of(x), RandomPurpose::mlp_dropout, kElements[0]);
  };
  run_both([&](auto of) { dropout_forward(of(x), dropout(of), of(out)); });
  out.expect_same("dropout");
  run_both(
      [&](auto of) { bias_dropout_add(of(x), bias.tensor, of(residual), dropout(of), of(out)); });
  out.expect_same("bias_dropout_add");
}

/// A rounding in which the last element of `tensor` has the same index for both tensors.
StochasticRounding rounding_of(const Tensor& tensor) {
  StochasticRounding rounding;
  rounding.begin = kElements[0] * kColumns - tensor.numel();
  return rounding;
}

TEST_P(LargeTensorsOf, AdamW) {
  const Both grad(kElements, DType::f32, 1), exp_avg(kElements, GetParam(), 2);
  const Both exp_avg_sq(kElements, GetParam()), master(kElements, DType::f32, 3);
  const Both value(kElements, GetParam());
  const OwnedTensor scale = on_gpu(random_tensor({1}, DType::f32, 4).tensor);
  AdamW settings;
  settings.lr = 0.1f;
  settings.weight_decay = 0.01f;
  run_both([&](auto of) {
    if (GetParam() == DType::bf16) {
      settings.rounding = settings.moment_rounding = rounding_of(of(grad));
    }
    adamw_step(settings, scale.tensor, of(grad), of(exp_avg), of(exp_avg_sq), of(master),
               of(value));
  });
  exp_avg.expect_same("exp_avg");
  exp_avg_sq.expect_same("exp_avg_sq");
  master.expect_same("master");
  value.expect_same("value");
}

TEST_P(LargeTensorsOf, Lion) {
  const Both grad(kElements, DType::f32, 1), exp_avg(kElements, GetParam(), 2);
  const Both master(kElements, DType::f32, 3), value(kElements, GetParam());
  const OwnedTensor scale = on_gpu(random_tensor({1}, DType::f32, 4).tensor);
  Lion settings;
  settings.lr = 0.1f;
  run_both([&](auto of) {
    if (GetParam() == DType::bf16) {
      settings.rounding = settings.moment_rounding = rounding_of(of(grad));
    }
    lion_step(settings, scale.tensor, of(grad), of(exp_avg), of(master), of(value));
  });
  exp_avg.expect_same("exp_avg");
  master.expect_same("master");
  value.expect_same("value");
}

TEST_P(LargeTensorsOf, Muon) {
  const Both grad(kElements, DType::f32, 1), exp_avg(kElements, GetParam(), 2);
  const Both master(kElements, DType::f32, 3), value(kElements, GetParam());
  const Both update(kElements, GetParam());
  const OwnedTensor scale = on_gpu(random_tensor({1}, DType::f32, 4).tensor);
  MuonStep settings;
  settings.lr = 0.1f;
  run_both([&](auto of) {
    MuonMomentum momentum;
    if (GetParam() == DType::bf16) {
      settings.rounding = momentum.moment_rounding = rounding_of(of(grad));
    }
    muon_momentum(momentum, scale.tensor, of(grad), of(exp_avg), of(update));
    muon_step(settings, scale.tensor, of(update), of(master), of(value));
  });
  exp_avg.expect_same("exp_avg");
  update.expect_same("update");
  master.expect_same("master");
  value.expect_same("value");
}

TEST_F(LargeTensors, Ema) {
  const Both weight(kElements, DType::f32, 1), ema(kElements, DType::f32, 2);
  const OwnedTensor scale = on_gpu(random_tensor({1}, DType::f32, 4).tensor);
  run_both([&](auto of) {
    ema_step(0.9, scale.tensor, of(weight), of(ema));
    ema_swap(of(weight), of(ema));
  });
  weight.expect_same("weight");
  ema.expect_same("ema");
}

TEST_F(LargeTensors, StochasticRounding) {
  const Both x(kElements, DType::f32, 1), y(kElements, DType::bf16);
  run_both([&](auto of) { round_stochastically(of(x), rounding_of(of(x)), of(y)); });
  y.expect_same("round_stochastically");
}

TEST_F(LargeTensors, OrderKeys) {
  const Both x(kElements, DType::f32, 1);
  run_both([&](auto of) { cuda::to_order_keys(of(x)); });
  x.expect_same("to_order_keys");
  run_both([&](auto of) { cuda::from_order_keys(of(x)); });
  x.expect_same("from_order_keys");
}

TEST_F(LargeTensors, IntegersAndPositions) {
  const Both out(kElements, DType::i32);
  Both rows(kElements, DType::i32);
  rows.set(random_ints({1, kColumns}, 0, 64, 1).tensor);
  const OwnedTensor values = on_gpu(random_ints({64}, 1, 1000, 2).tensor);
  const auto flat = [](const Tensor& tensor) { return tensor.view({tensor.numel()}); };
  run_both([&](auto of) { gather_ints(values.tensor, flat(of(rows)), flat(of(out))); });
  out.expect_same("gather_ints");
  run_both([&](auto of) { fill_positions(5, of(out)); });
  out.expect_same("fill_positions");
}

/// Zeros in the scratch memory, for partial sums of blocks that do not run.
void clear_workspace(size_t bytes) {
  cuda::check(cudaMemsetAsync(cuda::workspace(bytes), 0, bytes, cuda::stream()), "clear");
}

TEST_F(LargeTensors, SumOfSquares) {
  const Both x(kElements, DType::f32, 1);
  const OwnedTensor sum({1}, DType::f64, kGpu);
  const auto sum_of = [&](const Tensor& tensor) {
    clear_workspace(1024 * sizeof(double));
    fill(sum.tensor, 0.0);
    const OnlyLastBlocks only(1);
    add_sum_of_squares(tensor, sum.tensor);
    return to_doubles(on_host(sum.tensor).tensor).front();
  };
  const double expected = sum_of(x.small.tensor);
  EXPECT_GT(expected, 0.0);
  EXPECT_NEAR(sum_of(x.large.tensor), expected, 1e-12 * expected);
}

// --- a block, or a few warps, per row
// ---------------------------------------------------------------
Shape rows_of(int64_t columns, int64_t numbers = k2To32) {
  return {numbers / columns + 16, columns};
}

/// One fp32 number per row.
struct PerRow : Both {
  explicit PerRow(const Shape& rows) : Both({rows[0]}, DType::f32) {}
  PerRow(const Shape& rows, uint64_t seed) : Both({rows[0]}, DType::f32, seed) {}
};

TEST_P(LargeTensorsOf, LayerNorm) {
  const DType dtype = GetParam();
  for (const int64_t columns : {1024, 8192, 1023}) {  // a warp per row, a block, unaligned
    const Shape shape = rows_of(columns);
    const Both x(shape, dtype, 1), y(shape, dtype);
    const PerRow mean(shape), rstd(shape);
    const OwnedTensor weight = on_gpu(random_tensor({columns}, dtype, 2).tensor);
    run_both([&](auto of) {
      layer_norm_forward(of(x), weight.tensor, weight.tensor, 1e-5f, of(y), of(mean), of(rstd));
    });
    y.expect_same("y");
    mean.expect_same("mean");
    rstd.expect_same("rstd");
  }
}

TEST_P(LargeTensorsOf, NormOfBranchEnd) {
  const DType dtype = GetParam();
  const Shape shape = rows_of(1024);
  const Both x(shape, dtype, 1), residual(shape, dtype, 2), sum(shape, dtype), y(shape, dtype);
  const PerRow mean(shape), rstd(shape);
  const OwnedTensor weight = on_gpu(random_tensor({1024}, dtype, 3).tensor);
  run_both([&](auto of) {
    bias_dropout_add_norm(of(x), weight.tensor, of(residual),
                          dropout_of(of(x), RandomPurpose::mlp_dropout, shape[0]), of(sum),
                          weight.tensor, weight.tensor, 1e-5f, of(y), of(mean), of(rstd));
  });
  sum.expect_same("sum");
  y.expect_same("y");
}

TEST_P(LargeTensorsOf, NormGradient) {
  const DType dtype = GetParam();
  cuda::use_multiprocessors(1024);  // so that a block has few rows
  for (const int64_t columns : {1024, 8192, 1023}) {
    // A block of unaligned rows reads many pages.
    const Shape shape = rows_of(columns, columns == 1023 ? k2To32 / 2 : k2To32);
    const Both dy(shape, dtype, 1), x(shape, dtype, 2), residual(shape, dtype, 3);
    const Both dx(shape, dtype);
    const PerRow mean(shape, 4), rstd(shape, 5);
    const OwnedTensor weight = on_gpu(random_tensor({columns}, dtype, 6).tensor);
    const OwnedTensor dweight({columns}, DType::f32, kGpu), dbias({columns}, DType::f32, kGpu);
    run_both([&](auto of) {
      layer_norm_backward(of(dy), of(x), weight.tensor, of(mean), of(rstd), of(residual), of(dx),
                          dweight.tensor, dbias.tensor, of(residual));
    });
    dx.expect_same("dx");
  }
}

TEST_P(LargeTensorsOf, CrossEntropy) {
  const DType dtype = GetParam();
  // Whole packs, single elements, and rows that do not fit into shared memory.
  for (const int64_t vocab : {50304, 50257, 131072}) {
    const Shape shape = rows_of(vocab);
    const Both logits(shape, dtype, 1);
    Both targets({shape[0]}, DType::i32);
    targets.set(from_ints(std::vector{static_cast<int32_t>(vocab) - 1}, {1}).tensor);
    const PerRow row_max(shape), row_sum(shape), target_logit(shape), log_sum_exp(shape, 2);
    run_both([&](auto of) {
      cross_entropy_statistics(of(logits), of(targets), 0, vocab, of(row_max), of(row_sum),
                               of(target_logit));
    });
    row_max.expect_same("row_max");
    row_sum.expect_same("row_sum");
    target_logit.expect_same("target_logit");
    run_both([&](auto of) {
      cross_entropy_with_gradient(of(logits), of(targets), vocab, 0.5f, of(row_max), of(row_sum),
                                  of(target_logit));
    });
    logits.expect_same("gradient");
    target_logit.expect_same("target_logit");
    run_both([&](auto of) {
      cross_entropy_gradient(of(logits), of(targets), 0, vocab, of(log_sum_exp), 0.5f);
    });
    logits.expect_same("gradient");
  }
}

TEST_P(LargeTensorsOf, EmbeddingRows) {
  const DType dtype = GetParam();
  for (const int64_t columns : {4096, 4095}) {
    const Shape shape = rows_of(columns);
    const int64_t rows = shape[0];
    const Both table(shape, dtype, 1), x(shape, dtype, 2), out(shape, dtype);
    Both ids({rows}, DType::i32);
    const auto set_id = [&](int64_t id) {
      ids.set(from_ints(std::vector{static_cast<int32_t>(id)}, {1}).tensor);
    };
    set_id(rows - 1);
    run_both([&](auto of) {
      embedding_forward(of(ids), of(table), {rows - of(table).dim(0), rows}, of(out));
    });
    out.expect_same("embedding_forward");
    run_both([&](auto of) {
      set_id(of(table).dim(0) - 1);
      embedding_add(of(x), of(ids), of(table), of(out));
    });
    out.expect_same("embedding_add");
    run_both([&](auto of) { scatter_add_rows(of(x), of(ids), of(out), rows - of(out).dim(0)); });
    out.expect_same("scatter_add_rows");
  }
}

// The gradient of the last token, in the last columns. Scratch memory grows with dout, which is
// therefore smaller than the table.
TEST_P(LargeTensorsOf, EmbeddingGradient) {
  const DType dtype = GetParam();
  constexpr int64_t kWide = 32768, kTokens = k2To32 / 2 / kWide + 16, kRows = 2 * kTokens;
  const Both dtable({kRows, kWide}, DType::f32), dout({kTokens, kWide}, dtype, 1);
  Both ids({kTokens}, DType::i32);
  ids.set(from_ints(std::vector{static_cast<int32_t>(kRows) - 1}, {1}).tensor);
  run_both(
      [&](auto of) {
        embedding_backward(of(ids), of(dout), {kRows - of(dtable).dim(0), kRows}, of(dtable));
      },
      /*blocks=*/1, {"sort_ids"});
  const auto gradient = [&](const Tensor& table) { return to_doubles(on_host(table).tensor); };
  const std::vector<double> expected = gradient(dtable.small.tensor);
  const std::vector<double> actual = gradient(end_of(dtable.large.tensor));
  constexpr size_t kThreads = 64, kPack = 4;  // at least
  for (size_t c = kWide - kThreads * kPack; c < kWide; ++c) {
    ASSERT_EQ(actual[c], expected[c]) << c;
    ASSERT_NE(expected[c], 0.0) << c;
  }
}

TEST_P(LargeTensorsOf, Argmax) {
  const Shape shape = rows_of(50257);
  const Both x(shape, GetParam(), 1), best({shape[0]}, DType::i32);
  run_both([&](auto of) { argmax_rows(of(x), of(best)); });
  best.expect_same("argmax_rows");
}

TEST_P(LargeTensorsOf, ColumnsOfRanks) {
  constexpr int64_t kParts = 4, kWidth = 1024;
  const Shape shape = rows_of(kParts * kWidth);
  const int64_t rows = shape[0];
  const SparseTensor parts({kParts, rows, kWidth}, GetParam());
  const OwnedTensor small = on_gpu(random_tensor({kParts, 1, kWidth}, GetParam(), 1).tensor);
  for (int64_t part = 0; part < kParts; ++part) {
    const Tensor all = parts.tensor.slice(part, part + 1).view({rows, kWidth});
    copy(small.tensor.slice(part, part + 1).view({1, kWidth}), end_of(all));
  }
  const Both joined({rows, kParts * kWidth - 100}, DType::f32);
  join_columns(small.tensor, joined.small.tensor);
  const OnlyLastBlocks only(1);
  join_columns(parts.tensor, joined.large.tensor);
  joined.expect_same("join_columns");
}

TEST_P(LargeTensorsOf, AddBias) {
  for (const int64_t columns : {4096, 4095}) {
    const Both y(rows_of(columns), GetParam(), 1);
    const OwnedTensor bias = on_gpu(random_tensor({columns}, GetParam(), 2).tensor);
    run_both([&](auto of) { cuda::add_bias(bias.tensor, of(y), Accumulate::yes); });
    y.expect_same("add_bias");
  }
}

TEST_P(LargeTensorsOf, ColumnSum) {
  constexpr int64_t kWide = 8192;
  const Both x(rows_of(kWide), GetParam(), 1);
  const OwnedTensor sums({kWide}, DType::f32, kGpu);
  const auto sums_of = [&](const Tensor& tensor) {
    clear_workspace(256 * kWide * sizeof(float));
    fill(sums.tensor, 0.0);
    const OnlyLastBlocks only(1, {"a sum over rows"});
    column_sum(tensor, sums.tensor);
    return to_doubles(on_host(sums.tensor).tensor);
  };
  const std::vector<double> expected = sums_of(x.small.tensor), actual = sums_of(x.large.tensor);
  for (size_t c = kWide - size_t{4} * 32; c < kWide; ++c) {  // at least 32 packs of 4
    EXPECT_EQ(actual[c], expected[c]) << c;
    EXPECT_NE(expected[c], 0.0) << c;
  }
}

TEST_F(LargeTensors, PiecesOfColumnSums) {
  constexpr int64_t kWide = 65536, kPieces = k2To32 / kWide + 16;
  const Both partials({kPieces, kWide}, DType::f32, 1);
  const OwnedTensor sums({kWide}, DType::f32, kGpu);
  const auto sums_of = [&](const Tensor& tensor) {
    fill(sums.tensor, 0.0);
    const OnlyLastBlocks only(1);
    cuda::add_pieces(tensor.data<float>(), tensor.dim(0), 1, kWide, Accumulate::yes,
                     sums.tensor.data<float>(), nullptr);
    return to_doubles(on_host(sums.tensor).tensor);
  };
  const std::vector<double> expected = sums_of(partials.small.tensor);
  const std::vector<double> actual = sums_of(partials.large.tensor);
  for (size_t c = kWide - 32; c < kWide; ++c) {
    EXPECT_EQ(actual[c], expected[c]) << c;
    EXPECT_NE(expected[c], 0.0) << c;
  }
}

// --- positions and heads
// ----------------------------------------------------------------------------
TEST_P(LargeTensorsOf, Rotary) {
  constexpr int64_t kHeads = 16, kSize = 64, kTokens = 2 * k2To20;  // whole rounds of all threads
  static_assert(kTokens * 3 * kHeads * kSize > k2To32);
  const Both qkv({kTokens, 1, 3 * kHeads, kSize}, GetParam(), 1);
  const Both table({kTokens, kSize}, DType::f32, 2);
  run_both([&](auto of) { rotary_forward(of(table), 2 * kHeads, of(qkv)); });
  qkv.expect_same("rotary_forward");
}

TEST_F(LargeTensors, RotaryTable) {
  constexpr int64_t kSize = 512, kTokens = (2 * k2To32 + 8 * k2To20) / kSize;
  const Both table({kTokens, kSize}, DType::f32);
  Both positions({kTokens}, DType::i32);
  positions.set(from_ints(std::vector{1000}, {1}).tensor);
  run_both([&](auto of) { rotary_table(of(positions), {}, of(table)); });
  table.expect_same("rotary_table");
}

TEST_P(LargeTensorsOf, KeyValueCache) {
  const DType dtype = GetParam();
  constexpr int64_t kSequences = 4096 + 16, kHeads = 32, kCapacity = 1024, kSize = 32;
  static_assert(kSequences * kHeads * kCapacity * kSize > k2To32);
  const Both qkv({kSequences, 2, 3 * kHeads, kSize}, dtype, 1);
  const Shape cache{kSequences, kHeads, kCapacity, kSize}, heads{kSequences, kHeads, kSize};
  const Both keys(cache, dtype), values(cache, dtype), q(heads, dtype, 2), out(heads, dtype);
  run_both([&](auto of) { store_key_values(of(qkv), kCapacity - 2, of(keys), of(values)); },
           /*blocks=*/2);
  keys.expect_same("keys");
  values.expect_same("values");
  AttentionOptions window;
  window.mask.window = 100;
  window.scale = 0.125f;
  // Two chunks of keys per head.
  run_both(
      [&](auto of) { attention_decode(of(q), of(keys), of(values), kCapacity, window, of(out)); },
      /*blocks=*/2 * kHeads);
  out.expect_same("attention_decode");
}

TEST_P(LargeTensorsOf, AttentionWithMaskAndDropout) {
  const DType dtype = GetParam();
  constexpr int64_t kSequences = 66000, kLength = 64, kHeads = 16, kSize = 32;
  static_assert(kSequences * kLength * 3 * kHeads * kSize > k2To32);
  static_assert(kSequences * kHeads * kLength * kLength > k2To32);
  const Shape pairs{kSequences, kHeads, kLength, kLength};
  const Both qkv({kSequences, kLength, 3 * kHeads, kSize}, dtype, 1);
  const Both added(pairs, DType::f32, 2), weights(pairs, DType::f32);
  const Both out({kSequences, kLength, kHeads, kSize}, dtype);
  const Both log_sum_exp({kSequences, kHeads, kLength}, DType::f32);
  const auto options = [&](auto of) {
    AttentionOptions result;
    result.scale = 0.125f;
    result.total_heads = kHeads;
    result.mask.additive = of(added);
    result.dropout = dropout_of(of(qkv), RandomPurpose::attention_dropout, kSequences);
    return result;
  };
  run_both([&](auto of) { attention_forward(of(qkv), options(of), of(out), of(log_sum_exp)); },
           kHeads);
  out.expect_same("out");
  log_sum_exp.expect_same("log_sum_exp");
  run_both([&](auto of) { attention_weights(of(qkv), of(log_sum_exp), options(of), of(weights)); },
           kHeads);
  weights.expect_same("weights");
}

// Large heads, because a kernel goes through all rows of heads. Their number is a multiple of its
// warps, and the last `kBlocks` blocks have those of the last sequence.
TEST_P(LargeTensorsOf, AttentionGradient) {
  const DType dtype = GetParam();
  constexpr int64_t kLength = 64, kHeads = 2, kBlocks = kLength * kHeads / 8;
  for (const int64_t size : {128, 250}) {  // tensor cores in bf16, unaligned
    const int64_t sequences = round_up(k2To32 / (kLength * 3 * kHeads * size) + 1, 256);
    const Shape qkv_shape{sequences, kLength, 3 * kHeads, size};
    const Shape out_shape{sequences, kLength, kHeads, size};
    const Both qkv(qkv_shape, dtype, 1), dqkv(qkv_shape, dtype);
    const Both out(out_shape, dtype), dout(out_shape, dtype, 2);
    const Both log_sum_exp({sequences, kHeads, kLength}, DType::f32);
    AttentionOptions options;
    options.scale = 0.0625f;
    options.total_heads = kHeads;
    options.mask.causal = true;
    run_both([&](auto of) { attention_forward(of(qkv), options, of(out), of(log_sum_exp)); },
             kBlocks);
    out.expect_same("out");
    run_both(
        [&](auto of) {
          attention_backward(of(dout), of(qkv), of(out), of(log_sum_exp), options, of(dqkv));
        },
        kBlocks);
    dqkv.expect_same("dqkv");
  }
}

// --- an index that is too narrow
// -----------------------------------------------------------------------
template <typename Index>
__global__ void indexed_kernel(const float* x, int64_t n, float* y) {
  for (int64_t i = cuda::global_thread(); i < n; i += cuda::global_threads()) {
    const auto at = static_cast<Index>(i);
    y[at] = 2.0f * x[at];
  }
}

template <typename Index>
void run_indexed(const Both& x, const Both& y) {
  run_both([&](auto of) {
    cuda::launch("indexed", cuda::one_dimensional(of(x).numel(), 256), indexed_kernel<Index>,
                 of(x).template data<float>(), of(x).numel(), of(y).template data<float>());
  });
}

TEST(LargeTensorsDeathTest, IndexOf32BitsReachesAnotherElement) {
  cuda::use_device(0);
  const Both x(kElements, DType::f32, 1), y(kElements, DType::f32), other(kElements, DType::f32);
  run_indexed<int64_t>(x, y);
  y.expect_same("an index of 64 bits");
  run_indexed<uint32_t>(x, other);
  EXPECT_EQ(to_doubles(on_host(end_of(other.large.tensor)).tensor),
            std::vector<double>(kColumns, 0.0));
  EXPECT_DEATH(run_indexed<int32_t>(x, other),
               "kernel 'indexed'.*byte -85[0-9]+ of a block of [0-9]+ bytes of device memory");
}

}  // namespace
}  // namespace tessera
