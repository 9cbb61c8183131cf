#include "core/ops/query_groups.h"

#include "core/error.h"
#include "core/ops/dispatch/checks.h"
#include "core/ops/dispatch/dispatch.h"

namespace tessera {
namespace {

Device check(const char* op, const Tensor& grouped, const char* grouped_name, const Tensor& qkv,
             const char* qkv_name) {
  require_float(grouped, op, grouped_name);
  require(grouped.shape().rank() == 5 && grouped.dim(3) >= 3,
          "{}: {} must have shape (B, T, K, G + 2, D), but is {}", op, grouped_name,
          describe(grouped));
  const int64_t heads = grouped.dim(2) * (grouped.dim(3) - 2);
  require_shape(qkv, {grouped.dim(0), grouped.dim(1), 3, heads, grouped.dim(4)}, op, qkv_name);
  require_dtype(qkv, grouped.dtype(), op, qkv_name);
  require_disjoint(qkv, qkv_name, grouped, grouped_name, op);
  return common_device(op, grouped, qkv);
}

}  // namespace

void repeat_key_values(const Tensor& grouped, Tensor qkv) {
  constexpr const char* kOp = "repeat_key_values";
  const OpRange range(kOp);
  const Device device = check(kOp, grouped, "grouped", qkv, "qkv");
  dispatch<cpu::repeat_key_values, cuda::repeat_key_values, meta::repeat_key_values>(device,
                                                                                     grouped, qkv);
}

void repeat_key_values_backward(const Tensor& dqkv, Tensor dgrouped) {
  constexpr const char* kOp = "repeat_key_values_backward";
  const OpRange range(kOp);
  const Device device = check(kOp, dgrouped, "dgrouped", dqkv, "dqkv");
  dispatch<cpu::repeat_key_values_backward, cuda::repeat_key_values_backward,
           meta::repeat_key_values_backward>(device, dqkv, dgrouped);
}

}  // namespace tessera
