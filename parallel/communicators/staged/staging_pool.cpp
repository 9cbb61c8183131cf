#include "parallel/communicators/staged/staging_pool.h"

#include <algorithm>
#include <bit>

namespace tessera {
namespace {

constexpr size_t kSmallest = size_t{64} << 10;

}  // namespace

StagingPool::Lease StagingPool::take(size_t bytes) {
  // Use the smallest free block that is large enough; otherwise grow the largest free one.
  Block* best = nullptr;
  for (const auto& block : blocks_) {
    if (block->in_use) continue;
    const size_t size = block->buffer.bytes();
    const size_t best_size = best == nullptr ? 0 : best->buffer.bytes();
    const bool better = best_size < bytes ? size > best_size : size >= bytes && size < best_size;
    if (best == nullptr || better) best = block.get();
  }
  if (best == nullptr) best = blocks_.emplace_back(std::make_unique<Block>()).get();
  best->copied.wait();
  if (best->buffer.bytes() < bytes) {
    best->buffer = Buffer();
    best->buffer = Buffer(std::bit_ceil(std::max(bytes, kSmallest)), kCpu, MemoryKind::pinned);
  }
  best->in_use = true;
  return Lease(best);
}

}  // namespace tessera
