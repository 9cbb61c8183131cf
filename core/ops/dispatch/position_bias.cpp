#include "core/ops/position_bias.h"

#include <bit>
#include <cmath>

#include "core/error.h"
#include "core/ops/dispatch/checks.h"
#include "core/ops/dispatch/dispatch.h"

namespace tessera {
namespace {

void require_table(const Tensor& table, const char* op) {
  require_dtype(table, DType::f32, op, "table");
  require(table.shape().rank() == 2 && table.dim(1) % 2 == 1,
          "{}: table must have shape (Hl, 2R - 1) for distances below R, but is {}", op,
          describe(table));
}

}  // namespace

double alibi_slope(int64_t head, int64_t heads) {
  const uint64_t n = std::bit_floor(static_cast<uint64_t>(heads));
  return std::exp2(alibi_log2_slope(head, static_cast<int64_t>(n)));
}

void alibi_bias(int64_t first_head, int64_t total_heads, Tensor table) {
  constexpr const char* kOp = "alibi_bias";
  const OpRange range(kOp);
  require_table(table, kOp);
  require(first_head >= 0 && first_head + table.dim(0) <= total_heads,
          "{}: heads [{}, {}) of this rank are not within the {} heads of all ranks", kOp,
          first_head, first_head + table.dim(0), total_heads);
  const Device device = common_device(kOp, table);
  dispatch<cpu::alibi_bias, cuda::alibi_bias, meta::alibi_bias>(device, first_head, total_heads,
                                                                table);
}

}  // namespace tessera
