#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "core/memory.h"
#include "core/trace/device_mark.h"

namespace tessera {

/// Pinned host memory of one rank through which GPU tensors travel, kept for the next ones.
class StagingPool {
 public:
  struct Block {
    Buffer buffer;
    /// Behind the last copy out of it, which has to be done before the host writes.
    DeviceMark copied{{DeviceType::cuda, 0}};
    bool in_use = false;
  };

  /// Gives a block back.
  struct Release {
    void operator()(Block* block) const { block->in_use = false; }
  };
  using Lease = std::unique_ptr<Block, Release>;

  /// A block of at least `bytes` that no copy uses. The pool outlives it.
  Lease take(size_t bytes);

 private:
  std::vector<std::unique_ptr<Block>> blocks_;
};

}  // namespace tessera
