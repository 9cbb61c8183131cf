#pragma once

#include <cstdint>

#include "core/cuda/runtime.h"
#include "core/device.h"
#include "core/trace/place_stack.h"
#include "core/trace/timeline.h"
#include "core/trace/work_log.h"

namespace tessera {

/// A named range of the host's program, for its lifetime. NVIDIA's profilers show it (NVTX), and
/// the calling thread's timeline, work log and flight recorder record it; otherwise it costs
/// nothing. Ranges nest. `name` must outlive it.
class TraceRange {
 public:
  explicit TraceRange(const char* name, int64_t bytes = 0)
      : TraceRange(name, bytes, /*of_op=*/false) {}
  ~TraceRange() {
    if (places_ != nullptr) places_->leave();
    if (work_log_ != nullptr) work_log_->leave();
    if (timeline_ != nullptr) {
      timeline_->add(name_, Timeline::Track::steps, begin_, Timeline::Clock::now(), bytes_);
    }
    if constexpr (kHasCuda) cuda::pop_range();
  }
  TraceRange(const TraceRange&) = delete;
  TraceRange& operator=(const TraceRange&) = delete;

 protected:
  TraceRange(const char* name, int64_t bytes, bool of_op)
      : name_(name),
        bytes_(bytes),
        timeline_(Timeline::current()),
        work_log_(WorkLog::current()),
        places_(PlaceStack::current()) {
    if constexpr (kHasCuda) cuda::push_range(name);
    if (timeline_ != nullptr) begin_ = Timeline::Clock::now();
    if (work_log_ != nullptr) work_log_->enter(name, of_op);
    if (places_ != nullptr) places_->enter(name);
  }

 private:
  const char* name_;
  int64_t bytes_;
  Timeline* timeline_;
  WorkLog* work_log_;
  PlaceStack* places_;
  Timeline::Clock::time_point begin_;
};

/// The range of an op. A work log adds up under its name what the op does, itself or by calling
/// other ops.
class OpRange : public TraceRange {
 public:
  explicit OpRange(const char* op) : TraceRange(op, /*bytes=*/0, /*of_op=*/true) {}
};

}  // namespace tessera
