#pragma once

#include <cuda_runtime.h>

#include <map>
#include <string>
#include <vector>

namespace emulator {

/// The current or last launch.
const Launch& running_launch();

/// The grid of the last launch of each kernel, by its name. Call it while no kernel runs.
const std::map<std::string, Shape>& last_grids();

/// While it exists, of each grid only the last `count` blocks run, as if the others took no time
/// and wrote nothing. Grids of the kernels in `whole`, by name, run completely. At most one exists.
class OnlyLastBlocks {
 public:
  explicit OnlyLastBlocks(uint64_t count, std::vector<std::string> whole = {});
  ~OnlyLastBlocks();
  OnlyLastBlocks(const OnlyLastBlocks&) = delete;
  OnlyLastBlocks& operator=(const OnlyLastBlocks&) = delete;
};

/// Returns whether a kernel is running on the calling thread.
bool in_kernel();

/// Fills all `__shared__` variables with 0xff, so that they are NaN until written.
void poison_static_shared();

}  // namespace emulator
