#include "core/ops/checksum.h"

#include "core/ops/dispatch/checks.h"
#include "core/ops/dispatch/dispatch.h"

namespace tessera {

void checksum(const Tensor& x, Tensor out) {
  constexpr const char* kOp = "checksum";
  const OpRange range(kOp);
  if (x.dtype() != DType::u8) require_float(x, kOp, "x");
  require_shape(out, {1}, kOp, "out");
  require_dtype(out, DType::i64, kOp, "out");
  require_disjoint(out, "out", x, "x", kOp);
  const Device device = common_device(kOp, x, out);
  dispatch<cpu::checksum, cuda::checksum, meta::checksum>(device, x, out);
}

}  // namespace tessera
