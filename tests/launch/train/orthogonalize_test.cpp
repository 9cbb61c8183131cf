#include "launch/train/optimizer/orthogonalize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/reference.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using namespace test;
using reference::Doubles;

TEST(Orthogonalize, MatchesTextbookInDouble) {
  for (const Shape& shape : {Shape{1, 1}, Shape{7, 7}, Shape{5, 40}, Shape{40, 5}, Shape{64, 48}}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (const int64_t steps : {1, 5}) {
        const TestTensor x = random_tensor(shape, dtype, 1);
        Doubles expected =
            reference::orthogonalized(to_doubles(x.tensor), shape[0], shape[1], steps);
        for (double& value : expected) value *= 3.0;
        Arena arena(test_device(), size_t{1} << 20);
        orthogonalize(x.tensor, steps, 3.0f, arena);
        // Each step rounds four times and multiplies errors of small singular values by up to 3.4.
        const double growth = steps == 1 ? 1.0 : 20.0;
        expect_close(x.tensor, expected, growth * 8 * unit_roundoff(dtype), "x");
      }
    }
  }
}

/// Multiplies rows or columns of a matrix by the reflection I − 2 v vᵀ / vᵀ v.
void reflect(Doubles& x, size_t rows, size_t columns, bool from_left, uint64_t seed) {
  const size_t size = from_left ? rows : columns, count = from_left ? columns : rows;
  const Doubles v =
      to_doubles(random_tensor({static_cast<int64_t>(size)}, DType::f32, seed).tensor);
  double norm = 0.0;
  for (const double value : v) norm += value * value;
  for (size_t j = 0; j < count; ++j) {
    const auto at = [&](size_t i) -> double& {
      return from_left ? x[i * columns + j] : x[j * columns + i];
    };
    double dot = 0.0;
    for (size_t i = 0; i < size; ++i) dot += v[i] * at(i);
    for (size_t i = 0; i < size; ++i) at(i) -= 2.0 * dot / norm * v[i];
  }
}

// x = P Σ Q with reflections P and Q, so P x Q has the singular values on its diagonal.
TEST(Orthogonalize, BringsSingularValuesNearOne) {
  for (const Shape& shape : {Shape{24, 24}, Shape{24, 60}, Shape{60, 24}}) {
    const auto rows = static_cast<size_t>(shape[0]), columns = static_cast<size_t>(shape[1]);
    const size_t count = std::min(rows, columns);
    Doubles x(rows * columns);
    for (size_t i = 0; i < count; ++i) {  // from 1 to 0.03, also after division by the norm of 2.2
      x[i * columns + i] = std::pow(0.03, static_cast<double>(i) / static_cast<double>(count - 1));
    }
    reflect(x, rows, columns, true, 1);
    reflect(x, rows, columns, false, 2);
    const TestTensor matrix = from_doubles(x, shape, DType::f32);
    Arena arena(test_device(), size_t{1} << 20);
    orthogonalize(matrix.tensor, 5, 1.0f, arena);
    Doubles result = to_doubles(matrix.tensor);
    reflect(result, rows, columns, true, 1);
    reflect(result, rows, columns, false, 2);
    for (size_t i = 0; i < rows; ++i) {
      for (size_t j = 0; j < columns; ++j) {
        const double value = result[i * columns + j];
        if (i == j) {
          EXPECT_GT(value, 0.65) << i;
          EXPECT_LT(value, 1.25) << i;
        } else {
          EXPECT_NEAR(value, 0.0, 1e-4) << i << " " << j;
        }
      }
    }
  }
}

TEST(Orthogonalize, KeepsZeros) {
  const TestTensor zeros({6, 9}, DType::f32);
  Arena arena(test_device(), size_t{1} << 16);
  orthogonalize(zeros.tensor, 5, 2.0f, arena);
  EXPECT_EQ(to_doubles(zeros.tensor), Doubles(54));
  EXPECT_EQ(arena.used(), 0u);
}

}  // namespace
}  // namespace tessera
