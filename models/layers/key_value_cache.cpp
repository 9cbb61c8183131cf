#include "models/layers/key_value_cache.h"

#include "core/ops/key_values.h"

namespace tessera {

KeyValueCache::KeyValueCache(int64_t num_layers, const Shape& shape, DType dtype, Device device)
    : capacity_(shape[2]) {
  const MemoryUse use("the keys and values of the tokens so far");
  for (int64_t i = 0; i < num_layers; ++i) {
    layers_.push_back({OwnedTensor(shape, dtype, device), OwnedTensor(shape, dtype, device)});
  }
}

void KeyValueCache::store(int64_t layer, const Tensor& qkv) {
  store_key_values(qkv, length_, keys(layer), values(layer));
}

}  // namespace tessera
