#include "core/ops/key_values.h"

#include "core/error.h"
#include "core/ops/dispatch/checks.h"
#include "core/ops/dispatch/dispatch.h"

namespace tessera {

void store_key_values(const Tensor& qkv, int64_t first, Tensor keys, Tensor values) {
  constexpr const char* kOp = "store_key_values";
  const OpRange range(kOp);
  require_float(qkv, kOp, "qkv");
  require(qkv.shape().rank() == 4, "{}: qkv must have shape (B, T, Hl + 2 Kl, D), but is {}", kOp,
          describe(qkv));
  require(keys.defined() && keys.shape().rank() == 4 && keys.dim(0) == qkv.dim(0) &&
              2 * keys.dim(1) <= qkv.dim(2) && keys.dim(3) == qkv.dim(3),
          "{}: keys must have shape (B, Kl, capacity, D) for qkv {}, but are {}", kOp,
          describe(qkv), describe(keys));
  require_dtype(keys, qkv.dtype(), kOp, "keys");
  require_like(values, keys, kOp, "values");
  require(first >= 0 && first + qkv.dim(1) <= keys.dim(2),
          "{}: a cache of {} positions cannot hold {}", kOp, keys.dim(2), first + qkv.dim(1));
  const Device device = common_device(kOp, qkv, keys, values);
  dispatch<cpu::store_key_values, cuda::store_key_values, meta::store_key_values>(
      device, qkv, first, keys, values);
}

}  // namespace tessera
