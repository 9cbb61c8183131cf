#pragma once

#include "core/cuda/runtime.h"
#include "core/device.h"

namespace tessera {

/// A named stretch of the host's program for as long as it lives, which NVIDIA's profilers show
/// (NVTX). Free where no profiler looks. Ranges nest.
class TraceRange {
 public:
  explicit TraceRange([[maybe_unused]] const char* name) {
    if constexpr (kHasCuda) cuda::push_range(name);
  }
  ~TraceRange() {
    if constexpr (kHasCuda) cuda::pop_range();
  }
  TraceRange(const TraceRange&) = delete;
  TraceRange& operator=(const TraceRange&) = delete;
};

}  // namespace tessera
