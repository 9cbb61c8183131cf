#include "models/layers/attention/key_value_cache.h"

#include <utility>

#include "core/error.h"
#include "core/ops/elementwise.h"
#include "core/ops/key_values.h"

namespace tessera {

KeyValueCache::KeyValueCache(int64_t num_layers, const Shape& shape, DType dtype, Device device)
    : capacity_(shape[2]) {
  const MemoryUse use("the keys and values of the tokens so far");
  for (int64_t i = 0; i < num_layers; ++i) {
    layers_.push_back({OwnedTensor(shape, dtype, device), OwnedTensor(shape, dtype, device)});
  }
}

size_t KeyValueCache::bytes() const {
  size_t sum = 0;
  for (const Layer& layer : layers_) sum += layer.keys.tensor.bytes() + layer.values.tensor.bytes();
  return sum;
}

void KeyValueCache::store(int64_t layer, const Tensor& qkv) {
  store_key_values(qkv, length_, keys(layer), values(layer));
}

void KeyValueCache::reorder(std::span<const int32_t> parents) {
  const Shape shape = keys(0).shape();
  require(std::ssize(parents) == shape[0], "{} parents for a cache of {} rows", parents.size(),
          shape[0]);
  if (!spare_.tensor.defined()) spare_ = OwnedTensor(shape, keys(0).dtype(), keys(0).device());
  for (Layer& layer : layers_) {
    for (OwnedTensor* part : {&layer.keys, &layer.values}) {
      for (int64_t b = 0; b < shape[0]; ++b) {
        const int64_t parent = parents[static_cast<size_t>(b)];
        copy(part->tensor.slice(parent, parent + 1), spare_.tensor.slice(b, b + 1));
      }
      std::swap(*part, spare_);
    }
  }
}

}  // namespace tessera
