#include <gtest/gtest.h>

#include "core/ops/activation.h"
#include "core/ops/attention.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/dropout.h"
#include "core/ops/elementwise.h"
#include "core/ops/embedding.h"
#include "core/ops/layer_norm.h"
#include "core/ops/matmul.h"
#include "core/ops/pooling.h"
#include "core/ops/reduce.h"
#include "core/ops/rotary.h"
#include "core/ops/value_loss.h"
#include "tests/support/tensors.h"

/// A batch may have no rows, only padding, or no position with a loss. Ops then do nothing, and
/// sums over rows add nothing.
namespace tessera {
namespace {

using namespace test;

constexpr int64_t kWidth = 24;

class ZeroRows : public testing::TestWithParam<DType> {
 protected:
  TestTensor rows(const Shape& shape) const { return TestTensor(shape, dtype); }

  /// Expects that `tensor` consists of `value`.
  static void expect_all(const Tensor& tensor, double value) {
    for (const double x : to_doubles(tensor)) EXPECT_EQ(x, value);
  }

  /// Zero rows between others, which no op may change.
  struct Between {
    explicit Between(const TestTensor& rows) : around(rows), none(around.tensor.slice(2, 2)) {
      fill(around.tensor, 3.0);
    }
    ~Between() { expect_all(around.tensor, 3.0); }
    const TestTensor& around;
    const Tensor none;
  };

  const DType dtype = GetParam();
  const TestTensor x = rows({0, kWidth}), y = rows({0, kWidth});
  const TestTensor vector = rows({kWidth}), empty = TestTensor({0}, DType::f32);
  const TestTensor ids = TestTensor({0}, DType::i32);
};

TEST_P(ZeroRows, Products) {
  const TestTensor w = random_tensor({8, kWidth}, dtype, 1), bias = random_tensor({8}, dtype, 2);
  const TestTensor out = rows({0, 8}), dw({8, kWidth}, DType::f32);
  linear_forward(x.tensor, w.tensor, bias.tensor, out.tensor);
  linear_backward_input(out.tensor, w.tensor, x.tensor);
  fill(dw.tensor, 3.0);
  linear_backward_weight(out.tensor, x.tensor, dw.tensor, Accumulate::yes);
  expect_all(dw.tensor, 3.0);
  linear_backward_weight(out.tensor, x.tensor, dw.tensor, Accumulate::no);
  expect_all(dw.tensor, 0.0);
}

TEST_P(ZeroRows, LayerNorm) {
  const TestTensor dweight({kWidth}, DType::f32), dbias({kWidth}, DType::f32);
  fill(dweight.tensor, 3.0);
  layer_norm_forward(x.tensor, vector.tensor, vector.tensor, 1e-5f, y.tensor, empty.tensor,
                     empty.tensor);
  bias_dropout_add_norm(x.tensor, vector.tensor, x.tensor, {}, x.tensor, vector.tensor,
                        vector.tensor, 1e-5f, y.tensor, empty.tensor, empty.tensor);
  layer_norm_backward(y.tensor, x.tensor, vector.tensor, empty.tensor, empty.tensor, {}, y.tensor,
                      dweight.tensor, dbias.tensor);
  layer_norm_backward(y.tensor, x.tensor, vector.tensor, empty.tensor, empty.tensor, x.tensor,
                      y.tensor, dweight.tensor, {});
  expect_all(dweight.tensor, 3.0);
  expect_all(dbias.tensor, 0.0);
}

TEST_P(ZeroRows, ElementByElement) {
  const TestTensor rows_of_y = rows({4, kWidth});
  const TestTensor rows_of_copy({4, kWidth}, DType::f32);
  const Between out(rows_of_y), wide(rows_of_copy);
  activation_forward(x.tensor, Activation::gelu, out.none);
  activation_backward(y.tensor, x.tensor, Activation::gelu_tanh, out.none);
  fill(out.none, 1.0);
  copy(x.tensor, out.none);
  copy(x.tensor, wide.none);
  add(x.tensor, y.tensor, out.none);
}

TEST_P(ZeroRows, Dropout) {
  const TestTensor rows_of_y = rows({4, kWidth});
  const Between out(rows_of_y);
  Dropout dropout{0.5f, {1, RandomPurpose::mlp_dropout}, 0};
  for (const Tensor& places : {Tensor(), ids.tensor}) {
    dropout.rows = places;
    dropout_forward(x.tensor, dropout, out.none);
    dropout_backward(y.tensor, dropout, out.none);
    bias_dropout_add(x.tensor, vector.tensor, y.tensor, dropout, out.none);
  }
}

TEST_P(ZeroRows, Embedding) {
  const TestTensor table = random_tensor({5, kWidth}, dtype, 1), dtable({5, kWidth}, DType::f32);
  fill(dtable.tensor, 3.0);
  embedding_forward(ids.tensor, table.tensor, {0, 5}, x.tensor);
  embedding_backward(ids.tensor, x.tensor, {0, 5}, dtable.tensor);
  embedding_add(x.tensor, ids.tensor, table.tensor, x.tensor);
  expect_all(dtable.tensor, 3.0);
}

TEST_P(ZeroRows, CrossEntropy) {
  cross_entropy_statistics(x.tensor, ids.tensor, 0, kWidth, empty.tensor, empty.tensor,
                           empty.tensor);
  rescale_sum_exp(empty.tensor, empty.tensor, empty.tensor);
  const TestTensor loss({1}, DType::f64);
  cross_entropy_loss(empty.tensor, empty.tensor, empty.tensor, ids.tensor, empty.tensor,
                     loss.tensor);
  expect_all(loss.tensor, 0.0);
  cross_entropy_gradient(x.tensor, ids.tensor, 0, kWidth, empty.tensor, 1.0f);
  cross_entropy_with_gradient(x.tensor, ids.tensor, kWidth, 1.0f, empty.tensor, empty.tensor,
                              empty.tensor);
}

TEST_P(ZeroRows, ValueLoss) {
  const TestTensor loss({1}, DType::f64), targets({0, kWidth}, DType::f32);
  value_loss(x.tensor, targets.tensor, ValueLoss::mse, loss.tensor);
  expect_all(loss.tensor, 0.0);
  value_loss_gradient(x.tensor, targets.tensor, ValueLoss::mse, 1.0f);
}

TEST_P(ZeroRows, Pooling) {
  const TestTensor starts = from_ints(std::vector<int32_t>{0}, {1});
  pool_mean(x.tensor, starts.tensor, TestTensor({0, kWidth}, dtype).tensor);
  pool_mean_backward(TestTensor({0, kWidth}, dtype).tensor, starts.tensor, x.tensor);
  const TestTensor vectors({0, kWidth}, DType::f32);
  normalize_rows(x.tensor, 1.0f, vectors.tensor, empty.tensor);
  normalize_rows_backward(vectors.tensor, vectors.tensor, 1.0f, empty.tensor, x.tensor);
}

TEST_P(ZeroRows, Sums) {
  const TestTensor out({kWidth}, DType::f32);
  fill(out.tensor, 3.0);
  column_sum(x.tensor, out.tensor);
  expect_all(out.tensor, 3.0);
  column_sum(x.tensor, out.tensor, Accumulate::no);
  expect_all(out.tensor, 0.0);
  const TestTensor squares({1}, DType::f64);
  add_sum_of_squares(empty.tensor, squares.tensor);
  expect_all(squares.tensor, 0.0);
}

TEST_P(ZeroRows, Attention) {
  const TestTensor no_documents({1}, DType::i32);
  const TestTensor bias({2, 7}, DType::f32), dbias({2, 7}, DType::f32);
  fill(dbias.tensor, 0.0);
  const TestTensor rows_of_out = rows({4, 4, 2, 8});
  const Between between(rows_of_out);
  for (const Shape& shape : {Shape{0, 4, 6, 8}, Shape{2, 0, 6, 8}, Shape{1, 0, 6, 8}}) {
    const TestTensor qkv = rows(shape), empty_out = rows({shape[0], shape[1], 2, 8});
    const Tensor out = shape[0] == 0 ? between.none : empty_out.tensor;
    const TestTensor lse({shape[0], 2, shape[1]}, DType::f32);
    const TestTensor weights({shape[0], 2, shape[1], shape[1]}, DType::f32);
    AttentionOptions options;
    options.total_heads = 2;
    options.dropout.probability = 0.5f;
    const auto run = [&] {
      attention_forward(qkv.tensor, options, out, lse.tensor);
      attention_backward(out, qkv.tensor, out, lse.tensor, options, qkv.tensor);
      attention_weights(qkv.tensor, lse.tensor, options, weights.tensor);
    };
    run();
    options.position_bias = bias.tensor;
    run();
    attention_backward(out, qkv.tensor, out, lse.tensor, options, qkv.tensor, dbias.tensor);
    expect_all(dbias.tensor, 0.0);
    options.mask.documents = no_documents.tensor;
    run();
    attention_backward(out, qkv.tensor, out, lse.tensor, options, qkv.tensor, dbias.tensor);
    expect_all(dbias.tensor, 0.0);
    if (shape[0] != 1) continue;
    options.padded_rows = {ids.tensor, 4};
    run();
  }
}

TEST_P(ZeroRows, Rotary) {
  const TestTensor rows_of_table({4, 8}, DType::f32), qkv = rows({1, 0, 6, 8});
  const Between table(rows_of_table);
  rotary_table(ids.tensor, {}, table.none);
  rotary_forward(table.none, 4, qkv.tensor);
  rotary_backward(table.none, 4, qkv.tensor);
}

INSTANTIATE_TEST_SUITE_P(DTypes, ZeroRows, testing::Values(DType::f32, DType::bf16),
                         test::name_of_dtype);

}  // namespace
}  // namespace tessera
