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

}  // namespace tessera
