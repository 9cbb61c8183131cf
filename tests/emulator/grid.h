#pragma once

#include <cuda_runtime.h>

namespace emulator {

/// The launch that runs, or ran last.
const Launch& running_launch();

/// Whether a kernel runs on the calling thread.
bool in_kernel();

/// Fills all `__shared__` variables with bytes of ones: NaN until they are written.
void poison_static_shared();

}  // namespace emulator
