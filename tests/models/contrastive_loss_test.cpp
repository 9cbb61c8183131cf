#include "models/layers/contrastive_loss.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/ops/elementwise.h"
#include "tests/support/finite_difference.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using namespace test;

constexpr int64_t kWidth = 6;

struct Case {
  int64_t samples, texts;
  bool symmetric;
};
constexpr Case kCases[] = {{2, 2, false}, {5, 2, true}, {4, 3, false}, {7, 3, true}};

/// As MultipleNegativesRankingLoss of sentence-transformers, but a sum over the queries: embeddings
/// (G × D, C).
double reference_loss(std::span<const double> embeddings, const Case& c, Range local) {
  const auto text = [&](int64_t sample, int64_t number) {
    return embeddings.subspan(static_cast<size_t>((sample * c.texts + number) * kWidth), kWidth);
  };
  double forward = 0.0, backward = 0.0;
  for (int64_t g = local.begin; g < local.end; ++g) {
    double candidates = 0.0, anchors = 0.0;
    for (int64_t h = 0; h < c.samples; ++h) {
      for (int64_t number = 1; number < c.texts; ++number) {
        candidates += std::exp(dot(text(g, 0), text(h, number)));
      }
      anchors += std::exp(dot(text(h, 0), text(g, 1)));
    }
    forward += std::log(candidates) - dot(text(g, 0), text(g, 1));
    backward += std::log(anchors) - dot(text(g, 0), text(g, 1));
  }
  return c.symmetric ? forward + backward : forward;
}

/// The sum that a rank adds to the loss, on top of 2.
double loss_of(const Case& c, const Tensor& embeddings, Range local, Tensor gradient) {
  Arena arena(test_device(), size_t{1} << 20);
  const TestTensor sum({1}, DType::f64);
  fill(sum.tensor, 2.0);
  ContrastiveLoss(test_device(), c.samples, c.texts, c.symmetric)
      .loss_and_gradient(arena, embeddings, local, 0.25f, sum.tensor, gradient);
  EXPECT_EQ(arena.used(), 0u);
  return to_doubles(sum.tensor)[0] - 2.0;
}

TEST(ContrastiveLoss, MatchesReferenceAndFiniteDifference) {
  for (const Case& c : kCases) {
    const Shape shape = {c.samples * c.texts, kWidth};
    const TestTensor embeddings = random_tensor(shape, DType::f32, 1);
    const TestTensor gradient(shape, DType::f32);
    const auto values = to_doubles(embeddings.tensor);
    const Range all = {0, c.samples};
    const double expected = reference_loss(values, c, all);
    const double found = loss_of(c, embeddings.tensor, all, gradient.tensor);
    EXPECT_NEAR(found, expected, sum_tolerance(DType::f32, kWidth) * expected);
    const auto slopes = finite_difference(
        [&](std::span<const double> at) { return 0.25 * reference_loss(at, c, all); }, values);
    // Logits, their exponentials, and the products with embeddings.
    expect_close(gradient.tensor, slopes, 8 * sum_tolerance(DType::f32, c.samples * c.texts),
                 "gradient");
  }
}

// Each rank adds its own samples, and has the gradient of all.
TEST(ContrastiveLoss, RanksShareSum) {
  for (const Case& c : kCases) {
    const Shape shape = {c.samples * c.texts, kWidth};
    const TestTensor embeddings = random_tensor(shape, DType::f32, 1);
    const TestTensor whole(shape, DType::f32), part(shape, DType::f32);
    loss_of(c, embeddings.tensor, {0, c.samples}, whole.tensor);
    for (const Range local : {Range{0, 1}, Range{1, c.samples}}) {
      const double expected = reference_loss(to_doubles(embeddings.tensor), c, local);
      EXPECT_NEAR(loss_of(c, embeddings.tensor, local, part.tensor), expected,
                  sum_tolerance(DType::f32, kWidth) * expected);
      expect_same_bits(part.tensor, whole.tensor, "gradient");
    }
  }
}

}  // namespace
}  // namespace tessera
