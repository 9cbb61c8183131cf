#include "core/ops/query_groups.h"

#include "core/error.h"
#include "core/ops/dispatch/checks.h"
#include "core/ops/dispatch/dispatch.h"
#include "core/ops/elementwise.h"

namespace tessera {
namespace {

Device check(const char* op, const Tensor& grouped, const char* grouped_name, const Tensor& qkv,
             const char* qkv_name) {
  require_float(grouped, op, grouped_name);
  require(grouped.shape().rank() == 5 && grouped.dim(3) >= 3,
          "{}: {} must have shape (B, T, K, G + 2, D), but is {}", op, grouped_name,
          describe(grouped));
  const int64_t heads = grouped.dim(2) * grouped.dim(3);
  require_shape(qkv, {grouped.dim(0), grouped.dim(1), heads, grouped.dim(4)}, op, qkv_name);
  require_dtype(qkv, grouped.dtype(), op, qkv_name);
  require_disjoint(qkv, qkv_name, grouped, grouped_name, op);
  return common_device(op, grouped, qkv);
}

/// Also checks the weights and statistics of the norm.
Device check_norm(const char* op, const Tensor& grouped, const char* grouped_name,
                  const Tensor& qkv, const char* qkv_name, const QueryKeyNorm& norm,
                  const Tensor& rstd) {
  const Device device = check(op, grouped, grouped_name, qkv, qkv_name);
  for (const Tensor* weight : {&norm.query_weight, &norm.key_weight}) {
    require_shape(*weight, {grouped.dim(4)}, op, "a weight");
    require_dtype(*weight, grouped.dtype(), op, "a weight");
  }
  const int64_t rows = grouped.dim(0) * grouped.dim(1) * grouped.dim(2);
  require_shape(rstd, {rows, grouped.dim(3) - 1}, op, "rstd");
  require_dtype(rstd, DType::f32, op, "rstd");
  require(norm.eps >= 0.0f, "{}: eps must not be negative, but is {}", op, norm.eps);
  common_device(op, grouped, norm.query_weight, norm.key_weight, rstd);
  return device;
}

}  // namespace

void split_groups(const Tensor& grouped, Tensor qkv) {
  constexpr const char* kOp = "split_groups";
  const OpRange range(kOp);
  const Device device = check(kOp, grouped, "grouped", qkv, "qkv");
  dispatch<cpu::split_groups, cuda::split_groups, meta::split_groups>(device, grouped, qkv);
}

void split_groups_backward(const Tensor& dqkv, Tensor dgrouped) {
  constexpr const char* kOp = "split_groups_backward";
  const OpRange range(kOp);
  const Device device = check(kOp, dgrouped, "dgrouped", dqkv, "dqkv");
  dispatch<cpu::split_groups_backward, cuda::split_groups_backward, meta::split_groups_backward>(
      device, dqkv, dgrouped);
}

void normalize_and_split(const Tensor& grouped, const QueryKeyNorm& norm, Tensor qkv, Tensor rstd) {
  constexpr const char* kOp = "normalize_and_split";
  const OpRange range(kOp);
  const Device device = check_norm(kOp, grouped, "grouped", qkv, "qkv", norm, rstd);
  dispatch<cpu::normalize_and_split, cuda::normalize_and_split, meta::normalize_and_split>(
      device, grouped, norm, qkv, rstd);
}

void normalize_and_split_backward(const Tensor& dqkv, const Tensor& grouped,
                                  const QueryKeyNorm& norm, const Tensor& rstd, Tensor dgrouped,
                                  Tensor dquery_weight, Tensor dkey_weight, Accumulate accumulate) {
  constexpr const char* kOp = "normalize_and_split_backward";
  const OpRange range(kOp);
  const Device device = check_norm(kOp, grouped, "grouped", dqkv, "dqkv", norm, rstd);
  require_like(dgrouped, grouped, kOp, "dgrouped");
  require_disjoint(dgrouped, "dgrouped", dqkv, "dqkv", kOp);
  require_disjoint(dgrouped, "dgrouped", grouped, "grouped", kOp);
  for (const Tensor* gradient : {&dquery_weight, &dkey_weight}) {
    require_shape(*gradient, {grouped.dim(4)}, kOp, "the gradient of a weight");
    require_dtype(*gradient, DType::f32, kOp, "the gradient of a weight");
  }
  common_device(kOp, grouped, dgrouped, dquery_weight, dkey_weight);
  if (grouped.numel() == 0) {
    if (accumulate == Accumulate::yes) return;
    fill(dquery_weight, 0.0);
    fill(dkey_weight, 0.0);
    return;
  }
  dispatch<cpu::normalize_and_split_backward, cuda::normalize_and_split_backward,
           meta::normalize_and_split_backward>(device, dqkv, grouped, norm, rstd, dgrouped,
                                               dquery_weight, dkey_weight, accumulate);
}

}  // namespace tessera
