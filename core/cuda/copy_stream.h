#pragma once

#include <cstddef>

#include "core/cuda/runtime.h"
#include "core/device.h"

namespace tessera::cuda {

/// Copies to a GPU beside the work of the thread that creates it. Does nothing in a build without
/// CUDA.
class CopyStream {
 public:
  CopyStream() {
    if constexpr (kHasCuda) {
      stream_ = make_copy_stream();
      event_ = make_event();
    }
  }
  ~CopyStream() {
    if constexpr (kHasCuda) {
      release_event(event_);
      release_copy_stream(stream_);
    }
  }
  CopyStream(const CopyStream&) = delete;
  CopyStream& operator=(const CopyStream&) = delete;

  /// Later copies wait for the work that the thread has enqueued.
  void wait_for_work() {
    if constexpr (kHasCuda) copies_wait_for_work(stream_, event_);
  }
  /// The thread's later work waits for the copies.
  void hold_work() {
    if constexpr (kHasCuda) work_waits_for_copies(stream_, event_);
  }
  /// `from` is page-locked, and must not change before the copy is done.
  void copy([[maybe_unused]] void* to, [[maybe_unused]] const void* from,
            [[maybe_unused]] size_t bytes) {
    if constexpr (kHasCuda) copy_to_device(stream_, to, from, bytes);
  }

 private:
  void* stream_ = nullptr;
  void* event_ = nullptr;
};

}  // namespace tessera::cuda
