#include "models/key_value_cache.h"

#include <cstring>

#include "core/error.h"

namespace tessera {

KeyValueCache::KeyValueCache(int64_t num_layers, const Shape& shape, DType dtype, Device device)
    : capacity_(shape[2]) {
  for (int64_t i = 0; i < num_layers; ++i) {
    layers_.push_back({OwnedTensor(shape, dtype, device), OwnedTensor(shape, dtype, device)});
  }
}

void KeyValueCache::store(int64_t layer, const Tensor& qkv) {
  const int64_t batch = qkv.dim(0), positions = qkv.dim(1), heads = qkv.dim(3), d = qkv.dim(4);
  require(length_ + positions <= capacity_, "a key-value cache of {} positions can not hold {}",
          capacity_, length_ + positions);
  if (qkv.device().is_meta()) return;
  const size_t row = static_cast<size_t>(d) * size_of(qkv.dtype());
  const auto* from = static_cast<const std::byte*>(qkv.raw());
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t t = 0; t < positions; ++t) {
      for (int64_t which = 1; which <= 2; ++which) {
        const Tensor& cache = which == 1 ? keys(layer) : values(layer);
        for (int64_t h = 0; h < heads; ++h) {
          const int64_t source = ((b * positions + t) * 3 + which) * heads + h;
          const int64_t target = (b * heads + h) * capacity_ + length_ + t;
          std::memcpy(static_cast<std::byte*>(cache.raw()) + static_cast<size_t>(target) * row,
                      from + static_cast<size_t>(source) * row, row);
        }
      }
    }
  }
}

}  // namespace tessera
