#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "core/memory.h"

namespace tessera {

/// Memory for copies, reused between calls: touching new pages costs more than copying.
class SpareBuffers {
 public:
  /// Returns a buffer of at least `bytes`.
  Buffer take(size_t bytes) {
    const auto found =
        std::ranges::find_if(spare_, [&](const Buffer& buffer) { return buffer.bytes() >= bytes; });
    if (found == spare_.end()) return Buffer(bytes, kCpu);
    Buffer buffer = std::move(*found);
    spare_.erase(found);
    return buffer;
  }
  void give_back(Buffer buffer) { spare_.push_back(std::move(buffer)); }

 private:
  std::vector<Buffer> spare_;
};

}  // namespace tessera
