#pragma once

#include <cstdint>

#include "core/cuda/runtime.h"
#include "core/device.h"
#include "core/trace/timeline.h"

namespace tessera {

/// A named range of the host's program, for its lifetime. NVIDIA's profilers show it (NVTX), and
/// the calling thread's timeline records it; otherwise it costs nothing. Ranges nest. `name` must
/// outlive it.
class TraceRange {
 public:
  explicit TraceRange(const char* name, int64_t bytes = 0)
      : name_(name), bytes_(bytes), timeline_(Timeline::current()) {
    if constexpr (kHasCuda) cuda::push_range(name);
    if (timeline_ != nullptr) begin_ = Timeline::Clock::now();
  }
  ~TraceRange() {
    if (timeline_ != nullptr) {
      timeline_->add(name_, Timeline::Track::steps, begin_, Timeline::Clock::now(), bytes_);
    }
    if constexpr (kHasCuda) cuda::pop_range();
  }
  TraceRange(const TraceRange&) = delete;
  TraceRange& operator=(const TraceRange&) = delete;

 private:
  const char* name_;
  int64_t bytes_;
  Timeline* timeline_;
  Timeline::Clock::time_point begin_;
};

}  // namespace tessera
