#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/memory.h"

namespace tessera {

/// Keys and values of the positions seen so far, for generation. Each is (B, Kl, capacity, D) per
/// layer, with the key-value heads of this tensor rank.
class KeyValueCache {
 public:
  KeyValueCache(int64_t num_layers, const Shape& shape, DType dtype, Device device);

  int64_t length() const { return length_; }
  int64_t capacity() const { return capacity_; }
  /// Bytes of all keys and values.
  size_t bytes() const;
  void clear() { length_ = 0; }
  void advance(int64_t positions) { length_ += positions; }

  const Tensor& keys(int64_t layer) const {
    return layers_[static_cast<size_t>(layer)].keys.tensor;
  }
  const Tensor& values(int64_t layer) const {
    return layers_[static_cast<size_t>(layer)].values.tensor;
  }

  /// Stores the keys and values of T new positions from qkv (B, T, Hl + 2 Kl, D), without
  /// advancing.
  void store(int64_t layer, const Tensor& qkv);

  /// Makes row b of all keys and values a copy of row parents[b], for beam search. There is a
  /// parent for each of the B rows.
  void reorder(std::span<const int32_t> parents);

 private:
  struct Layer {
    OwnedTensor keys, values;
  };

  std::vector<Layer> layers_;
  OwnedTensor spare_;  // shaped like the others, once reorder() needs it
  int64_t capacity_;
  int64_t length_ = 0;
};

}  // namespace tessera
