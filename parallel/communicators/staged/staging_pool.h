#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "core/memory.h"
#include "core/trace/device_mark.h"

namespace tessera {

/// One rank's pinned host memory for staging GPU tensors, reused between collectives.
class StagingPool {
 public:
  struct Block {
    Buffer buffer;
    /// Recorded after the last copy out of the block; wait for it before the host writes.
    DeviceMark copied{{DeviceType::cuda, 0}};
    bool in_use = false;
  };

  /// Returns a block to the pool.
  struct Release {
    void operator()(Block* block) const { block->in_use = false; }
  };
  using Lease = std::unique_ptr<Block, Release>;

  /// Returns a block of at least `bytes` that no copy uses. The pool must outlive it.
  Lease take(size_t bytes);

 private:
  std::vector<std::unique_ptr<Block>> blocks_;
};

}  // namespace tessera
