#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <span>
#include <vector>

namespace emulator {

/// The products of the running block's warpgroups: what was started and not yet completed, in which
/// order the warps started them, and what was written to shared memory without a fence.
class GroupProducts {
 public:
  void begin(std::byte* shared, size_t bytes, unsigned threads);
  /// Called when all threads of the block are at a barrier, which publishes what was fenced. All
  /// warps of a warpgroup must have started the same products.
  void at_barrier();
  /// Called when all threads have ended.
  void end() const;

  uint32_t address_of(const void* place) const;
  void wrote(unsigned thread, const void* to, size_t bytes);
  void fence_proxy(unsigned thread);

  void start(unsigned warp, const GroupProduct* const* lanes, const Site& site);
  void fence(unsigned warp) { warps_[warp].fenced = true; }
  void commit(unsigned warp);
  void wait(unsigned warp, int pending);

 private:
  /// The accumulators of a lane's product, held while it is pending.
  struct Accumulator {
    float* c[32][2];
    int n;
    std::vector<float> values;  ///< (16, n)
    int products = 0;           ///< pending ones
  };
  struct Pending {
    size_t accumulator;
    uint32_t a[32][4];
    GroupProduct of_warp;  ///< what is the same for all lanes
    int group;
  };
  struct Warp {
    std::vector<Accumulator> accumulators;
    std::vector<Pending> pending;
    int groups = 0;       ///< that were committed
    bool fenced = false;  ///< since the last wait
    size_t started = 0;   ///< products of the kernel so far
  };
  /// A product as any warp of a group started it.
  struct Start {
    Site site;
    uint64_t a_descriptor, b_descriptor;
    int n;
    bool b_transposed;
  };

  void require_all_warps() const;
  /// The memory of 8 elements of a matrix, by its descriptor.
  const std::byte* chunk(uint64_t descriptor, bool transposed, int column, int k) const;
  void require_fenced(const std::byte* chunk) const;
  size_t accumulator_of(Warp& warp, const GroupProduct* const* lanes) const;
  void compute(unsigned warp, const Pending& product, float* c) const;

  std::byte* shared_ = nullptr;
  size_t bytes_ = 0;
  std::vector<Warp> warps_;
  std::vector<std::vector<Start>> started_;  // by warpgroup
  // Of each 16 bytes, the writes without a later fence of their thread and then a barrier.
  std::vector<unsigned> unpublished_;
  std::vector<std::vector<uint32_t>> written_;  // 16 bytes each, by thread, since its last fence
  std::vector<std::vector<uint32_t>> fenced_;   // likewise, fenced since the last barrier
};

}  // namespace emulator
