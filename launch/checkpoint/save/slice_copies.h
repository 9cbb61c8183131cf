#pragma once

#include <cstddef>
#include <vector>

#include "core/memory.h"
#include "launch/checkpoint/save/save_plan.h"

namespace tessera {

/// Host memory for the slices that this rank writes of a checkpoint, so that the tensors themselves
/// may change before they are written. It stays for the next checkpoint; what comes from a GPU goes
/// to pinned memory.
class SliceCopies {
 public:
  /// Takes the memory for so many bytes of tensors on `from`, so that copy() need not. Throws if
  /// the host has not as much.
  void reserve(size_t bytes, Device from);

  /// Lets the system find the pages of what is reserved, which it does when they are first written:
  /// for the first copy() that takes several times as long as the copying.
  void touch();

  /// The pieces that the plan gives this rank to write, as copies that stay as they are until
  /// the next call. Throws if the host has not as much memory. What a tensor makes is copied, too.
  std::vector<HeldTensor> copy(SavePlan& plan, int rank, const std::vector<HeldTensor>& tensors);

  /// What is kept.
  size_t bytes() const { return memory_.bytes(); }

 private:
  Buffer memory_;
};

}  // namespace tessera
