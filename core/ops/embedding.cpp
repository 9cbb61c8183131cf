#include "core/ops/embedding.h"

#include "core/error.h"
#include "core/ops/checks.h"
#include "core/ops/cpu/ops.h"

namespace tessera {
namespace {

void require_table(const Tensor& table, int64_t rows, int64_t columns, const char* op,
                   const char* name) {
  require(table.defined() && table.shape().rank() == 2 && table.dim(0) >= rows &&
              table.dim(1) == columns,
          "{}: {} must have shape (at least {}, {}), but is {}", op, name, rows, columns,
          describe(table));
}

void require_held(Range held, const char* op) {
  require(0 <= held.begin && held.begin <= held.end, "{}: [{}, {}) is no range of rows to hold", op,
          held.begin, held.end);
}

/// `tensor` must have the dims of `ids` and one more.
void require_rows_of_ids(const Tensor& tensor, const Tensor& ids, const char* op,
                         const char* name) {
  require_dtype(ids, DType::i32, op, "ids");
  require_float(tensor, op, name);
  require(ids.shape().rank() < Shape::kMaxDims, "{}: ids may have at most {} dims, but is {}", op,
          Shape::kMaxDims - 1, describe(ids));
  Shape shape = ids.shape();
  shape.push_back(columns_of(tensor));
  require_shape(tensor, shape, op, name);
}

}  // namespace

void embedding_forward(const Tensor& ids, const Tensor& table, Range held, Tensor out) {
  constexpr const char* kOp = "embedding_forward";
  require_held(held, kOp);
  require_rows_of_ids(out, ids, kOp, "out");
  require_table(table, held.size(), columns_of(out), kOp, "table");
  require_dtype(table, out.dtype(), kOp, "table");
  require_disjoint(out, "out", table, "table", kOp);
  if (any_meta(ids, table, out)) return;
  cpu::embedding_forward(ids, table, held, out);
}

void embedding_backward(const Tensor& ids, const Tensor& dout, Range held, Tensor dtable) {
  constexpr const char* kOp = "embedding_backward";
  require_held(held, kOp);
  require_rows_of_ids(dout, ids, kOp, "dout");
  require_table(dtable, held.size(), columns_of(dout), kOp, "dtable");
  require_dtype(dtable, DType::f32, kOp, "dtable");
  require_disjoint(dtable, "dtable", dout, "dout", kOp);
  if (any_meta(ids, dout, dtable)) return;
  cpu::embedding_backward(ids, dout, held, dtable);
}

void add_positions_forward(const Tensor& x, const Tensor& table, int64_t first, Tensor out) {
  constexpr const char* kOp = "add_positions_forward";
  require_float(x, kOp, "x");
  require(x.shape().rank() == 3, "{}: x must have shape (B, T, C), but is {}", kOp, describe(x));
  require(first >= 0, "{}: first must not be negative, but is {}", kOp, first);
  require_table(table, first + x.dim(1), x.dim(2), kOp, "table");
  require_dtype(table, x.dtype(), kOp, "table");
  require_like(out, x, kOp, "out");
  require_same_or_disjoint(out, "out", x, "x", kOp);
  require_disjoint(out, "out", table, "table", kOp);
  if (any_meta(x, table, out)) return;
  cpu::add_positions_forward(x, table, first, out);
}

void add_positions_backward(const Tensor& dout, Tensor dtable) {
  constexpr const char* kOp = "add_positions_backward";
  require_float(dout, kOp, "dout");
  require(dout.shape().rank() == 3, "{}: dout must have shape (B, T, C), but is {}", kOp,
          describe(dout));
  require_table(dtable, dout.dim(1), dout.dim(2), kOp, "dtable");
  require_dtype(dtable, DType::f32, kOp, "dtable");
  require_disjoint(dtable, "dtable", dout, "dout", kOp);
  if (any_meta(dout, dtable)) return;
  cpu::add_positions_backward(dout, dtable);
}

}  // namespace tessera
