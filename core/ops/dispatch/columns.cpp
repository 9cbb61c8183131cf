#include "core/ops/columns.h"

#include "core/error.h"
#include "core/ops/dispatch/checks.h"
#include "core/ops/dispatch/dispatch.h"

namespace tessera {

void join_columns(const Tensor& parts, Tensor out) {
  constexpr const char* kOp = "join_columns";
  const OpRange range(kOp);
  require_float(parts, kOp, "parts");
  require_dtype(out, DType::f32, kOp, "out");
  require(parts.shape().rank() == 3, "{}: parts must have shape (R, N, W), but are {}", kOp,
          describe(parts));
  require(out.shape().rank() == 2 && out.dim(0) == parts.dim(1) &&
              out.dim(1) <= parts.dim(0) * parts.dim(2),
          "{}: out must have shape ({}, at most {}), but is {}", kOp, parts.dim(1),
          parts.dim(0) * parts.dim(2), describe(out));
  require_disjoint(out, "out", parts, "parts", kOp);
  const Device device = common_device(kOp, parts, out);
  dispatch<cpu::join_columns, cuda::join_columns, meta::join_columns>(device, parts, out);
}

void copy_columns(const Tensor& x, int64_t first_x, Tensor out, int64_t first_out,
                  int64_t columns) {
  constexpr const char* kOp = "copy_columns";
  const OpRange range(kOp);
  require_float(x, kOp, "x");
  require_dtype(out, x.dtype(), kOp, "out");
  require(x.shape().rank() == 2 && out.shape().rank() == 2 && x.dim(0) == out.dim(0),
          "{}: x and out must be matrices with the same number of rows, but are {} and {}", kOp,
          describe(x), describe(out));
  const auto require_columns = [&](const Tensor& matrix, const char* name, int64_t first) {
    require(first >= 0 && columns >= 0 && first + columns <= matrix.dim(1),
            "{}: {} has {} columns, and not the {} from {} on", kOp, name, matrix.dim(1), columns,
            first);
  };
  require_columns(x, "x", first_x);
  require_columns(out, "out", first_out);
  require_disjoint(out, "out", x, "x", kOp);
  const Device device = common_device(kOp, x, out);
  dispatch<cpu::copy_columns, cuda::copy_columns, meta::copy_columns>(device, x, first_x, out,
                                                                      first_out, columns);
}

}  // namespace tessera
