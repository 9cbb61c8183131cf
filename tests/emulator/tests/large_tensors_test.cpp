// A thread per element: see large_tensors.h.

#include "tests/emulator/tests/large_tensors.h"

#include <bit>
#include <vector>

#include "core/cuda/device_code.h"
#include "core/cuda/launch.h"
#include "core/ops/activation.h"
#include "core/ops/adamw.h"
#include "core/ops/checksum.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/cuda/embedding/order_keys.h"
#include "core/ops/ema.h"
#include "core/ops/lion.h"
#include "core/ops/muon.h"
#include "core/ops/positions.h"
#include "core/ops/reduce.h"
#include "core/ops/rows.h"
#include "core/ops/stochastic_rounding.h"
#include "core/ops/tanh.h"
#include "core/ops/value_loss.h"

namespace tessera {
namespace {

using namespace test;

INSTANTIATE_TEST_SUITE_P(All, LargeTensorsOf, ::testing::Values(DType::f32, DType::bf16),
                         name_of_dtype);

// Grids have at most 4096 blocks of 256 threads. The number of elements is a multiple of that, also
// in packs of 8, so that the last block has the last elements.
constexpr int64_t kColumns = 256;
const Shape kElements{(k2To32 + 8 * k2To20) / kColumns, kColumns};

TEST_P(LargeTensorsOf, Elementwise) {
  const DType dtype = GetParam();
  const Both a(kElements, dtype, 1), b(kElements, dtype, 2), out(kElements, dtype);
  run_both([&](auto of) { add(of(a), of(b), of(out)); });
  out.expect_same("add");
  run_both([&](auto of) { scale(of(a), 3.0f, of(out)); });
  out.expect_same("scale");
  run_both([&](auto of) { add_scaled(3.0f, of(a), 0.5f, of(b), of(out)); });
  out.expect_same("add_scaled");
  const OwnedTensor squares({1}, DType::f64, kGpu);
  fill(squares.tensor, 7.0);
  run_both([&](auto of) { scale_to_unit_norm(of(a), squares.tensor, 0.1f, of(out)); });
  out.expect_same("scale_to_unit_norm");
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

TEST_P(LargeTensorsOf, ValueLossGradient) {
  const Both logits(kElements, GetParam(), 1), targets(kElements, DType::f32, 2);
  for (const ValueLoss loss : {ValueLoss::mse, ValueLoss::bce_with_logits}) {
    run_both([&](auto of) { value_loss_gradient(of(logits), of(targets), loss, 0.5f); });
    logits.expect_same("value_loss_gradient");
  }
}

TEST_F(LargeTensors, RescaledSums) {
  const Both row_max(kElements, DType::f32, 1), global_max(kElements, DType::f32, 2);
  const Both row_sum(kElements, DType::f32, 3);
  const auto flat = [](const Tensor& tensor) { return tensor.view({tensor.numel()}); };
  run_both([&](auto of) {
    rescale_sum_exp(flat(of(row_max)), flat(of(global_max)), flat(of(row_sum)));
  });
  row_sum.expect_same("rescale_sum_exp");
}

// The terms depend on the index, so the sum is not that of a small tensor.
TEST_F(LargeTensors, Checksum) {
  const Both x(kElements, DType::f32, 1);
  const OwnedTensor sum({1}, DType::i64, kGpu);
  clear_workspace(1024 * sizeof(uint64_t));
  {
    const OnlyLastBlocks only(1);
    checksum(x.large.tensor, sum.tensor);
  }
  uint64_t expected = 0;
  const OwnedTensor last = on_host(x.small.tensor), actual = on_host(sum.tensor);
  for (int64_t c = 0; c < kColumns; ++c) {
    const int64_t index = x.large.tensor.numel() - kColumns + c;
    expected += checksum_term(index, std::bit_cast<uint32_t>(last.tensor.data<float>()[c]));
  }
  EXPECT_EQ(static_cast<uint64_t>(actual.tensor.data<int64_t>()[0]), expected);
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

// --- an index that is too narrow

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
