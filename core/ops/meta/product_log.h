#pragma once

#include <algorithm>
#include <vector>

#include "core/ops/cuda/matmul/product_key.h"

namespace tessera {

/// The matrix products of a dry run as a GPU asks cuBLASLt for them, each once. Pointers are
/// assumed to be aligned to 16 bytes, and fp32 operands to be whole.
class ProductLog {
 public:
  /// The calling thread's log; null if it has none.
  static ProductLog* current() { return current_; }

  /// Sets the calling thread's log for the lifetime of the scope.
  class Scope {
   public:
    explicit Scope(ProductLog* log) : outer_(current_) { current_ = log; }
    ~Scope() { current_ = outer_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    ProductLog* outer_;
  };

  void add(const cuda::ProductKey& key) {
    if (std::find(keys_.begin(), keys_.end(), key) == keys_.end()) keys_.push_back(key);
  }
  const std::vector<cuda::ProductKey>& keys() const { return keys_; }

 private:
  inline static constinit thread_local ProductLog* current_ = nullptr;

  std::vector<cuda::ProductKey> keys_;
};

}  // namespace tessera
