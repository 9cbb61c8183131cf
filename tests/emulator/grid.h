#pragma once

#include <cuda_runtime.h>

#include <map>
#include <string>

namespace emulator {

/// The current or last launch.
const Launch& running_launch();

/// The grid of the last launch of each kernel, by its name. Call it while no kernel runs.
const std::map<std::string, Shape>& last_grids();

/// Returns whether a kernel is running on the calling thread.
bool in_kernel();

/// Fills all `__shared__` variables with 0xff, so that they are NaN until written.
void poison_static_shared();

}  // namespace emulator
