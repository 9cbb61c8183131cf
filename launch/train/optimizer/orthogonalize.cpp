#include "launch/train/optimizer/orthogonalize.h"

#include <algorithm>

#include "core/error.h"
#include "core/ops/elementwise.h"
#include "core/ops/matmul.h"
#include "core/ops/reduce.h"

namespace tessera {
namespace {

constexpr float kA = 3.4445f, kB = -4.7750f, kC = 2.0315f;
constexpr float kEps = 1e-7f;  // for a norm of zero

/// The products of one step. For x with more rows than columns, xᵀ x has the smaller size.
class Products {
 public:
  Products(const Tensor& x, Arena& arena)
      : x_(x),
        tall_(x.dim(0) > x.dim(1)),
        gram_(arena.allocate({smaller(), smaller()}, x.dtype())),
        sum_(arena.allocate({smaller(), smaller()}, x.dtype())),
        product_(arena.allocate(x.shape(), x.dtype())) {
    if (tall_ && x.dtype() != DType::f32) gram32_ = arena.allocate(gram_.shape(), DType::f32);
  }

  /// (b x xᵀ + c (x xᵀ)²) x, or x (b xᵀ x + c (xᵀ x)²).
  const Tensor& operator()() const {
    if (!tall_) {
      linear_forward(x_, x_, {}, gram_);
    } else if (gram32_.defined()) {
      linear_backward_weight(x_, x_, gram32_, Accumulate::no);
      copy(gram32_, gram_);
    } else {
      linear_backward_weight(x_, x_, gram_, Accumulate::no);
    }
    linear_forward(gram_, gram_, {}, sum_);  // it is symmetric
    add_scaled(kB, gram_, kC, sum_, sum_);
    if (tall_) {
      linear_forward(x_, sum_, {}, product_);
    } else {
      linear_backward_input(sum_, x_, product_);
    }
    return product_;
  }

 private:
  int64_t smaller() const { return std::min(x_.dim(0), x_.dim(1)); }

  Tensor x_;
  bool tall_;
  Tensor gram_, sum_, product_, gram32_;
};

}  // namespace

void orthogonalize(const Tensor& x, int64_t steps, float scale, Arena& arena) {
  require(x.shape().rank() == 2, "orthogonalize: x must be a matrix, but is {}", describe(x));
  const Arena::Scope scope(arena);
  const Tensor squares = arena.allocate({1}, DType::f64);
  fill(squares, 0.0);
  add_sum_of_squares(x, squares);
  scale_to_unit_norm(x, squares, kEps, x);
  const Products products(x, arena);
  for (int64_t step = 0; step < steps; ++step) {
    const float factor = step + 1 == steps ? scale : 1.0f;
    add_scaled(factor * kA, x, factor, products(), x);
  }
}

}  // namespace tessera
