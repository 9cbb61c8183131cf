#pragma once

#include <cstddef>
#include <vector>

#include "core/memory.h"
#include "launch/checkpoint/save/local_tensor.h"

namespace tessera {

/// Host copies of the checkpoint slices that this rank writes, so that the tensors may change
/// before they are written. The memory is kept for the next checkpoint; it is pinned for tensors on
/// a GPU.
class SliceCopies {
 public:
  /// Allocates memory for `bytes` bytes of tensors on `from`, so that copy() need not. Throws if
  /// the host has too little.
  void reserve(size_t bytes, Device from);

  /// Touches the reserved pages. Otherwise the first copy() faults them in, which takes several
  /// times as long as copying.
  void touch();

  /// Copies the tensors, including those that are made. The copies are valid until the next call.
  /// Throws if the host has too little memory.
  std::vector<LocalTensor> copy(std::vector<LocalTensor> tensors);

  /// Size of the kept memory.
  size_t bytes() const { return memory_.bytes(); }

 private:
  Buffer memory_;
};

}  // namespace tessera
