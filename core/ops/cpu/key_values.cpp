#include <cstring>

#include "core/ops/device_ops.h"

namespace tessera::cpu {

void store_key_values(const Tensor& qkv, int64_t first, Tensor keys, Tensor values) {
  const int64_t batch = qkv.dim(0), positions = qkv.dim(1), heads = keys.dim(1);
  const int64_t capacity = keys.dim(2), first_key = qkv.dim(2) - 2 * heads;
  const size_t row = static_cast<size_t>(qkv.dim(3)) * size_of(qkv.dtype());
  const auto* from = static_cast<const std::byte*>(qkv.raw());
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t t = 0; t < positions; ++t) {
      for (int64_t which = 0; which < 2; ++which) {
        auto* to = static_cast<std::byte*>(which == 0 ? keys.raw() : values.raw());
        for (int64_t h = 0; h < heads; ++h) {
          const int64_t source = (b * positions + t) * qkv.dim(2) + first_key + which * heads + h;
          const int64_t target = (b * heads + h) * capacity + first + t;
          std::memcpy(to + static_cast<size_t>(target) * row,
                      from + static_cast<size_t>(source) * row, row);
        }
      }
    }
  }
}

}  // namespace tessera::cpu
