#include "core/ops/dropout.h"

#include "core/checked.h"
#include "core/error.h"
#include "core/ops/dispatch/checks.h"
#include "core/ops/dispatch/dispatch.h"
#include "core/ops/elementwise.h"

namespace tessera {
namespace {

void require_columns(const Dropout& dropout, const Tensor& x, const char* op) {
  const int64_t first = dropout.first_column, total = dropout.total_columns;
  require(total == 0 ? first == 0 : 0 <= first && first + x.dim(-1) <= total,
          "{}: the dropout's columns must be within {}, but {} begins at {}", op, total,
          describe(x), first);
}

void apply(const Tensor& x, const char* x_name, const Dropout& dropout, Tensor y,
           const char* y_name, const char* op) {
  require_float(x, op, x_name);
  require_like(y, x, op, y_name);
  require_same_or_disjoint(y, y_name, x, x_name, op);
  Dropout of_all = dropout;
  of_all.first_column = of_all.total_columns = 0;
  require_dropout(of_all, x, op);
  require_columns(dropout, x, op);
  if (!dropout.active()) return copy(x, y);
  const Device device = common_device(op, x, y, dropout.rows, dropout.rng_offset);
  dispatch<cpu::dropout, cuda::dropout, meta::dropout>(device, x, dropout, y);
}

}  // namespace

uint32_t Dropout::threshold() const {
  return static_cast<uint32_t>(static_cast<double>(probability) * 0x1p32);
}

Dropout Dropout::resolved() const {
  Dropout result = *this;
  if (!rng_offset.defined()) return result;
  const auto values = rng_offset.span<int64_t>();
  result.key.step = narrow<uint32_t>(values[0]);
  result.first_row = values[1] * sequence_rows;
  result.rng_offset = {};
  return result;
}

void require_dropout(const Dropout& dropout, const Tensor& x, const char* op) {
  require(0.0f <= dropout.probability && dropout.probability < 1.0f,
          "{}: the probability must be in [0, 1), but is {}", op, dropout.probability);
  require(dropout.first_row >= 0, "{}: first_row must not be negative, but is {}", op,
          dropout.first_row);
  require(dropout.first_column == 0 && dropout.total_columns == 0,
          "{}: the dropout is of some of {} columns, but this op needs all", op,
          dropout.total_columns);
  if (dropout.rng_offset.defined()) {
    require_shape(dropout.rng_offset, {2}, op, "the dropout's rng_offset");
    require_dtype(dropout.rng_offset, DType::i64, op, "the dropout's rng_offset");
  }
  if (!dropout.rows.defined()) return;
  require(dropout.rows.dtype() == DType::i32 && dropout.rows.numel() == rows_of(x),
          "{}: the dropout's rows must be int32, one for each of the {} rows of {}, but are {}", op,
          rows_of(x), describe(x), describe(dropout.rows));
}

void dropout_forward(const Tensor& x, const Dropout& dropout, Tensor y) {
  const OpRange range("dropout_forward");
  apply(x, "x", dropout, y, "y", "dropout_forward");
}

void dropout_backward(const Tensor& dy, const Dropout& dropout, Tensor dx) {
  const OpRange range("dropout_backward");
  apply(dy, "dy", dropout, dx, "dx", "dropout_backward");
}

void bias_dropout_add(const Tensor& x, const Tensor& bias, const Tensor& residual,
                      const Dropout& dropout, Tensor out) {
  const OpRange range("bias_dropout_add");
  constexpr const char* kOp = "bias_dropout_add";
  require_float(x, kOp, "x");
  if (bias.defined()) {
    require_shape(bias, {columns_of(x)}, kOp, "bias");
    require_dtype(bias, x.dtype(), kOp, "bias");
  }
  require_like(residual, x, kOp, "residual");
  require_like(out, x, kOp, "out");
  require_same_or_disjoint(out, "out", x, "x", kOp);
  require_same_or_disjoint(out, "out", residual, "residual", kOp);
  require_dropout(dropout, x, kOp);
  const Device device =
      common_device(kOp, x, bias, residual, out, dropout.rows, dropout.rng_offset);
  dispatch<cpu::bias_dropout_add, cuda::bias_dropout_add, meta::bias_dropout_add>(
      device, x, bias, residual, dropout, out);
}

}  // namespace tessera
