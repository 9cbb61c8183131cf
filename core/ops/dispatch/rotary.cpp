#include "core/ops/rotary.h"

#include "core/error.h"
#include "core/ops/dispatch/checks.h"
#include "core/ops/dispatch/dispatch.h"

namespace tessera {
namespace {

void turn(const Tensor& table, float direction, const Tensor& qkv, const char* name,
          const char* op) {
  require_float(qkv, op, name);
  require(qkv.shape().rank() == 5 && qkv.dim(2) == 3 && qkv.dim(4) % 2 == 0,
          "{}: {} must have shape (B, T, 3, Hl, D) with an even D, but is {}", op, name,
          describe(qkv));
  require_shape(table, {qkv.dim(0) * qkv.dim(1), qkv.dim(4)}, op, "table");
  require_dtype(table, DType::f32, op, "table");
  require_disjoint(qkv, name, table, "table", op);
  const Device device = common_device(op, table, qkv);
  dispatch<cpu::rotary, cuda::rotary, meta::rotary>(device, table, direction, qkv);
}

}  // namespace

void rotary_table(const Tensor& positions, float base, Tensor table) {
  constexpr const char* kOp = "rotary_table";
  const OpRange range(kOp);
  require_dtype(positions, DType::i32, kOp, "positions");
  require_dtype(table, DType::f32, kOp, "table");
  require(table.shape().rank() == 2 && table.dim(0) == positions.numel() && table.dim(1) % 2 == 0,
          "{}: table must have shape ({}, D) with an even D, a row for each of positions {}, but "
          "is {}",
          kOp, positions.numel(), describe(positions), describe(table));
  require(base > 0.0f, "{}: the base must be positive, but is {}", kOp, base);
  const Device device = common_device(kOp, positions, table);
  dispatch<cpu::rotary_table, cuda::rotary_table, meta::rotary_table>(device, positions, base,
                                                                      table);
}

void rotary_forward(const Tensor& table, Tensor qkv) {
  const OpRange range("rotary_forward");
  turn(table, 1.0f, qkv, "qkv", "rotary_forward");
}

void rotary_backward(const Tensor& table, Tensor dqkv) {
  const OpRange range("rotary_backward");
  turn(table, -1.0f, dqkv, "dqkv", "rotary_backward");
}

}  // namespace tessera
