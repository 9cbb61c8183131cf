#include <gtest/gtest.h>

#include "core/ops/activation.h"
#include "core/ops/dropout.h"
#include "core/ops/elementwise.h"
#include "core/ops/layer_norm.h"
#include "core/ops/reduce.h"
#include "core/ops/rotary.h"
#include "core/ops/tanh.h"
#include "tests/support/reference.h"
#include "tests/support/shifted.h"
#include "tests/support/tensors.h"

/// Sizes and addresses that matter only to kernels: around the boundaries of packs of 16 bytes,
/// warps, blocks and pieces of rows, and unaligned views.
namespace tessera {
namespace {

using namespace test;

constexpr DType kDTypes[] = {DType::f32, DType::bf16};

std::vector<double> plus(std::vector<double> a, std::span<const double> b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

TEST(KernelShapes, ElementsAroundPacksWarpsAndBlocks) {
  for (const DType dtype : kDTypes) {
    const TestTensor x = random_tensor({9000}, dtype, 1), dy = random_tensor({9000}, dtype, 2);
    const TestTensor gelu({9000}, dtype), dgelu({9000}, dtype), dtanh({9000}, dtype);
    activation_forward(x.tensor, Activation::gelu, gelu.tensor);
    activation_backward(dy.tensor, x.tensor, Activation::gelu_tanh, dgelu.tensor);
    tanh_backward(dy.tensor, x.tensor, dtanh.tensor);
    for (const int64_t n : {4, 5, 7, 8, 9, 31, 32, 33, 255, 257, 1023, 1025, 2047, 2049, 8193}) {
      for (const int64_t offset : {0, 1, 4}) {
        SCOPED_TRACE(fmt::format("{} of {}, {} off", to_string(dtype), n, offset));
        const Shifted in(x.tensor.slice(0, n), offset), grad(dy.tensor.slice(0, n), offset);
        const TestTensor out({n}, dtype);
        activation_forward(in.view, Activation::gelu, out.tensor);
        expect_same_bits(out.tensor, gelu.tensor.slice(0, n), "gelu");
        activation_backward(grad.view, in.view, Activation::gelu_tanh, out.tensor);
        expect_same_bits(out.tensor, dgelu.tensor.slice(0, n), "gelu's gradient");
        tanh_backward(grad.view, in.view, grad.view);
        expect_same_bits(grad.view, dtanh.tensor.slice(0, n), "tanh's gradient");
        add(in.view, in.view, out.tensor);
        EXPECT_EQ(to_doubles(out.tensor), plus(to_doubles(in.view), to_doubles(in.view)));
      }
    }
  }
}

TEST(KernelShapes, FillAndConvertStayInBounds) {
  for (const int64_t n : {1, 3, 8, 15, 33, 1027}) {
    for (const int64_t offset : {0, 1, 3, 8}) {
      SCOPED_TRACE(fmt::format("{}, {} off", n, offset));
      for (const DType dtype : {DType::f32, DType::bf16, DType::i64, DType::u8}) {
        const TestTensor memory({offset + n + 9}, dtype);
        fill(memory.tensor.slice(offset, offset + n), 3.0);
        const auto* bytes = static_cast<const uint8_t*>(memory.tensor.raw());
        const auto size = static_cast<int64_t>(size_of(dtype));
        for (int64_t i = 0; i < memory.tensor.numel(); ++i) {
          bool zero = true;
          for (int64_t b = 0; b < size; ++b) zero = zero && bytes[i * size + b] == 0;
          EXPECT_EQ(zero, i < offset || i >= offset + n) << to_string(dtype) << ' ' << i;
        }
      }
      const TestTensor x = random_tensor({n}, DType::f32, 1);
      const TestTensor memory({offset + n + 9}, DType::bf16), back({n}, DType::f32);
      copy(x.tensor, memory.tensor.slice(offset, offset + n));
      copy(memory.tensor.slice(offset, offset + n), back.tensor);
      expect_close(back.tensor, to_doubles(x.tensor), unit_roundoff(DType::bf16), "there and back");
      for (int64_t i = 0; i < memory.tensor.numel(); ++i) {
        if (i >= offset && i < offset + n) continue;
        EXPECT_EQ(memory.tensor.span<bfloat16>()[static_cast<size_t>(i)].bits, 0) << i;
      }
    }
  }
}

struct NormCase {
  int64_t rows, columns, offset = 0;
};

// In bf16 a warp processes rows of up to 2048 columns forward and 1024 backward; a block, rows of
// up to 32768 and 16384; in fp32 half of that. Longer or unaligned rows go column by column.
TEST(KernelShapes, NormsOfEveryRowLength) {
  for (const DType dtype : kDTypes) {
    for (const NormCase& shape :
         {NormCase{1, 8}, NormCase{35, 40}, NormCase{5, 128}, NormCase{33, 136}, NormCase{5, 264},
          NormCase{9, 520}, NormCase{18, 768}, NormCase{17, 1024}, NormCase{6, 1032},
          NormCase{9, 1600}, NormCase{5, 2056}, NormCase{5, 4096}, NormCase{2, 8200},
          NormCase{2, 16384}, NormCase{2, 16392}, NormCase{1, 33000}, NormCase{9, 264, 1},
          NormCase{5, 1032, 3}}) {
      for (const reference::Norm norm : {reference::Norm::layer, reference::Norm::rms}) {
        SCOPED_TRACE(fmt::format("{} ({}, {}){}", to_string(dtype), shape.rows, shape.columns,
                                 norm == reference::Norm::rms ? " RMS" : ""));
        const auto make = [&](const Shape& of, uint64_t seed) {
          return Shifted(random_tensor(of, dtype, seed).tensor, shape.offset);
        };
        const Shape rows{shape.rows, shape.columns}, row{shape.columns};
        const Shifted x = make(rows, 1), dy = make(rows, 2), residual = make(rows, 3);
        const Shifted weight = make(row, 4), bias = make(row, 5);
        const TestTensor y(rows, dtype), dx(rows, dtype), means({shape.rows}, DType::f32);
        const TestTensor rstd({shape.rows}, DType::f32);
        const TestTensor dweight = random_tensor(row, DType::f32, 6), dbias(row, DType::f32);
        const Tensor mean = norm == reference::Norm::layer ? means.tensor : Tensor();
        constexpr float kEps = 1e-5f;
        layer_norm_forward(x.view, weight.view, bias.view, kEps, y.tensor, mean, rstd.tensor);
        const auto forward =
            reference::layer_norm(to_doubles(x.view), to_doubles(weight.view),
                                  to_doubles(bias.view), shape.columns, kEps, norm);
        expect_close(y.tensor, forward.y, sum_tolerance(dtype, shape.columns), "y");
        if (mean.defined()) {
          expect_close(mean, forward.mean, sum_tolerance(DType::f32, shape.columns), "mean");
        }
        expect_close(rstd.tensor, forward.rstd, sum_tolerance(DType::f32, shape.columns), "rstd");

        const auto backward =
            reference::layer_norm_gradient(to_doubles(dy.view), to_doubles(x.view),
                                           to_doubles(weight.view), shape.columns, kEps, norm);
        const auto dweight_before = to_doubles(dweight.tensor);
        layer_norm_backward(dy.view, x.view, weight.view, mean, rstd.tensor, residual.view,
                            dx.tensor, dweight.tensor, dbias.tensor);
        const double sums = sum_tolerance(DType::f32, shape.rows + shape.columns);
        expect_close(dx.tensor, plus(backward.dx, to_doubles(residual.view)),
                     sum_tolerance(dtype, shape.columns) + sums, "dx");
        expect_close(dweight.tensor, plus(backward.dweight, dweight_before), sums, "dweight");
        expect_close(dbias.tensor, backward.dbias, sums, "dbias");
        layer_norm_backward(dy.view, x.view, weight.view, mean, rstd.tensor, residual.view, dy.view,
                            dweight.tensor, {});
        expect_same_bits(dy.view, dx.tensor, "dx in place of dy");
      }
    }
  }
}

// Same bits as the two ops, for every kernel of the norm, in place of x or residual or not.
TEST(KernelShapes, BiasDropoutAddNormEqualsItsParts) {
  constexpr float kEps = 1e-5f;
  for (const DType dtype : kDTypes) {
    for (const NormCase& shape :
         {NormCase{1, 8}, NormCase{35, 40}, NormCase{18, 768}, NormCase{9, 1600}, NormCase{5, 2056},
          NormCase{2, 16384}, NormCase{1, 33000}, NormCase{7, 37}, NormCase{9, 264, 1}}) {
      SCOPED_TRACE(fmt::format("{} ({}, {})", to_string(dtype), shape.rows, shape.columns));
      const Shape rows{shape.rows, shape.columns}, row{shape.columns};
      const TestTensor residual = random_tensor(rows, dtype, 2);
      const TestTensor bias = random_tensor(row, dtype, 3), weight = random_tensor(row, dtype, 4);
      const TestTensor norm_bias = random_tensor(row, dtype, 5);
      const TestTensor sum(rows, dtype), y(rows, dtype), found(rows, dtype);
      const TestTensor mean({shape.rows}, DType::f32), rstd({shape.rows}, DType::f32);
      const TestTensor found_mean({shape.rows}, DType::f32), found_rstd({shape.rows}, DType::f32);
      for (const float probability : {0.0f, 0.2f}) {
        for (const bool biased : {false, true}) {
          const Tensor b = biased ? bias.tensor : Tensor();
          const Tensor nb = biased ? norm_bias.tensor : Tensor();
          const Dropout dropout{probability, {42, RandomPurpose::mlp_dropout, 3, 7}, 5};
          const Shifted x(random_tensor(rows, dtype, 1).tensor, shape.offset);
          bias_dropout_add(x.view, b, residual.tensor, dropout, sum.tensor);
          const auto expect_the_same = [&](const Tensor& to_residual, const Tensor& to) {
            bias_dropout_add_norm(x.view, b, to_residual, dropout, to, weight.tensor, nb, kEps,
                                  found.tensor, found_mean.tensor, found_rstd.tensor);
            expect_same_bits(to, sum.tensor, "sum");
            layer_norm_forward(to, weight.tensor, nb, kEps, y.tensor, mean.tensor, rstd.tensor);
            expect_same_bits(found.tensor, y.tensor, "y");
            expect_same_bits(found_mean.tensor, mean.tensor, "mean");
            expect_same_bits(found_rstd.tensor, rstd.tensor, "rstd");
          };
          expect_the_same(residual.tensor, TestTensor(rows, dtype).tensor);
          const TestTensor in_place = copy_of(residual.tensor);
          expect_the_same(in_place.tensor, in_place.tensor);
          expect_the_same(residual.tensor, x.view);
        }
      }
    }
  }
}

TEST(KernelShapes, RowSumsOfManyPieces) {
  for (const DType dtype : kDTypes) {
    for (const NormCase& shape : {NormCase{64, 256}, NormCase{65, 264}, NormCase{1100, 8},
                                  NormCase{300, 4096}, NormCase{131, 1000, 1}}) {
      const Shifted x(random_tensor({shape.rows, shape.columns}, dtype, 1).tensor, shape.offset);
      const TestTensor out({shape.columns}, DType::f32), again({shape.columns}, DType::f32);
      column_sum(x.view, out.tensor);
      expect_close(out.tensor, reference::column_sum(to_doubles(x.view), shape.columns),
                   sum_tolerance(DType::f32, shape.rows), "out");
      column_sum(x.view, again.tensor);
      expect_same_bits(again.tensor, out.tensor, "a second time");
    }
  }
}

TEST(KernelShapes, SumsOfSquaresDoNotDependOnAlignment) {
  const auto sum_of_squares = [](const Tensor& x) {
    const TestTensor out({1}, DType::f64);
    add_sum_of_squares(x, out.tensor);
    return to_doubles(out.tensor)[0];
  };
  for (const int64_t n : {1, 3, 4, 5, 1023, 1024, 1025, 70003}) {
    const TestTensor x = random_tensor({n}, DType::f32, 1);
    const double expected = sum_of_squares(x.tensor);
    for (const int64_t offset : {1, 2, 4}) {
      EXPECT_EQ(sum_of_squares(Shifted(x.tensor, offset).view), expected) << n << ' ' << offset;
    }
  }
}

TEST(KernelShapes, DropoutBitsDoNotDependOnPacks) {
  const TestTensor rows = from_ints(std::vector<int32_t>{5, 0, 9, 2, 1 << 20}, {5});
  for (const DType dtype : kDTypes) {
    for (const int64_t columns : {4, 8, 12, 20, 136, 1024, 1028}) {
      const TestTensor x = random_tensor({5, columns}, dtype, 1);
      const TestTensor residual = random_tensor({5, columns}, dtype, 2);
      const TestTensor bias = random_tensor({columns}, dtype, 3);
      for (const Tensor& places : {Tensor(), rows.tensor}) {
        // A stream whose block numbers need more than 32 bits.
        const Dropout dropout{
            0.3f, {42, RandomPurpose::mlp_dropout, 3, 7}, int64_t{1} << 34, places};
        const TestTensor y(x.tensor.shape(), dtype), out(x.tensor.shape(), dtype);
        dropout_forward(x.tensor, dropout, y.tensor);
        bias_dropout_add(x.tensor, bias.tensor, residual.tensor, dropout, out.tensor);
        const auto values = to_doubles(y.tensor), inputs = to_doubles(x.tensor);
        for (int64_t i = 0; i < x.tensor.numel(); ++i) {
          const int64_t row = i / columns,
                        place = places.defined()
                                    ? rows.tensor.span<int32_t>()[static_cast<size_t>(row)]
                                    : row;
          const auto element =
              static_cast<uint64_t>((dropout.first_row + place) * columns + i % columns);
          const bool dropped = random_bits(dropout.key, element) < dropout.threshold();
          const auto at = static_cast<size_t>(i);
          ASSERT_EQ(values[at] == 0.0, dropped || inputs[at] == 0.0) << columns << ' ' << i;
        }
        for (const int64_t offset : {1, 4}) {
          const Shifted in(x.tensor, offset), other(residual.tensor, offset);
          const TestTensor shifted(x.tensor.shape(), dtype);
          dropout_forward(in.view, dropout, shifted.tensor);
          expect_same_bits(shifted.tensor, y.tensor, "y");
          bias_dropout_add(in.view, bias.tensor, other.view, dropout, other.view);
          expect_same_bits(other.view, out.tensor, "out");
        }
      }
    }
  }
}

TEST(KernelShapes, RotaryDoesNotDependOnPacks) {
  for (const DType dtype : kDTypes) {
    for (const int64_t d : {8, 16, 24, 64, 128}) {
      const TestTensor positions = random_ints({6}, 0, 5000, 1), table({6, d}, DType::f32);
      rotary_table(positions.tensor, {}, table.tensor);
      const TestTensor x = random_tensor({2, 3, 15, d}, dtype, 2);
      const Shifted shifted(x.tensor, 1);
      rotary_forward(table.tensor, 10, x.tensor);
      rotary_forward(table.tensor, 10, shifted.view);
      expect_same_bits(shifted.view, x.tensor, "qkv");
    }
  }
}

}  // namespace
}  // namespace tessera
