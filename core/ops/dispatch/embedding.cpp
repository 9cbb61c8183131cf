#include "core/ops/embedding.h"

#include "core/error.h"
#include "core/ops/dispatch/checks.h"
#include "core/ops/dispatch/dispatch.h"

namespace tessera {
namespace {

void require_table(const Tensor& table, int64_t rows, int64_t columns, const char* op,
                   const char* name) {
  require(table.defined() && table.shape().rank() == 2 && table.dim(0) >= rows &&
              table.dim(1) == columns,
          "{}: {} must have shape (at least {}, {}), but is {}", op, name, rows, columns,
          describe(table));
}

void require_local_rows(Range local_rows, const char* op) {
  require(0 <= local_rows.begin && local_rows.begin <= local_rows.end,
          "{}: the local rows [{}, {}) are no valid range", op, local_rows.begin, local_rows.end);
}

/// Throws unless `tensor` has the dims of `ids` and one more.
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

void embedding_forward(const Tensor& ids, const Tensor& table, Range local_rows, Tensor out) {
  const OpRange range("embedding_forward");
  constexpr const char* kOp = "embedding_forward";
  require_local_rows(local_rows, kOp);
  require_rows_of_ids(out, ids, kOp, "out");
  require_table(table, local_rows.size(), columns_of(out), kOp, "table");
  require_dtype(table, out.dtype(), kOp, "table");
  require_disjoint(out, "out", table, "table", kOp);
  const Device device = common_device(kOp, ids, table, out);
  dispatch<cpu::embedding_forward, cuda::embedding_forward, meta::embedding_forward>(
      device, ids, table, local_rows, out);
}

void embedding_backward(const Tensor& ids, const Tensor& dout, Range local_rows, Tensor dtable) {
  const OpRange range("embedding_backward");
  constexpr const char* kOp = "embedding_backward";
  require_local_rows(local_rows, kOp);
  require_rows_of_ids(dout, ids, kOp, "dout");
  require_table(dtable, local_rows.size(), columns_of(dout), kOp, "dtable");
  require_dtype(dtable, DType::f32, kOp, "dtable");
  require_disjoint(dtable, "dtable", dout, "dout", kOp);
  const Device device = common_device(kOp, ids, dout, dtable);
  dispatch<cpu::embedding_backward, cuda::embedding_backward, meta::embedding_backward>(
      device, ids, dout, local_rows, dtable);
}

void embedding_add(const Tensor& x, const Tensor& ids, const Tensor& table, Tensor out) {
  const OpRange range("embedding_add");
  constexpr const char* kOp = "embedding_add";
  require_float(x, kOp, "x");
  require_dtype(ids, DType::i32, kOp, "ids");
  require(ids.numel() == rows_of(x), "{}: x is {}, but there are {} ids", kOp, describe(x),
          ids.numel());
  require_table(table, 0, columns_of(x), kOp, "table");
  require_dtype(table, x.dtype(), kOp, "table");
  require_like(out, x, kOp, "out");
  require_same_or_disjoint(out, "out", x, "x", kOp);
  require_disjoint(out, "out", table, "table", kOp);
  const Device device = common_device(kOp, x, ids, table, out);
  dispatch<cpu::embedding_add, cuda::embedding_add, meta::embedding_add>(device, x, ids, table,
                                                                         out);
}

}  // namespace tessera
