#pragma once

#include <cuda_runtime.h>

namespace emulator {

/// The current or last launch.
const Launch& running_launch();

/// Returns whether a kernel is running on the calling thread.
bool in_kernel();

/// Fills all `__shared__` variables with 0xff, so that they are NaN until written.
void poison_static_shared();

}  // namespace emulator
