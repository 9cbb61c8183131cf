#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>

#include "tests/emulator/graphs.h"

namespace emulator {

struct Stream {
  int device = 0;
  std::deque<Work> work;
  uint64_t enqueued = 0, done = 0;
  bool running = false;  ///< its first piece of work is being tried
  Capture capture;
};

/// Ends the process if there are several GPUs and the calling thread has chosen none. A real
/// runtime would silently use the first one, and some of its memory for another context.
void require_device(const char* call);

/// Sets the calling thread's cudaGetLastError to `code` and returns it.
cudaError_t remember(cudaError_t code);
/// Ends the process if there is an unchecked error: a library that checks its launches would fail.
void require_no_error(const char* call);

/// Guards all streams and events, and what they wait for. Held while work runs.
std::recursive_mutex& stream_mutex();

/// `work` may return false, which means that it cannot be done yet; the stream then stalls there.
void enqueue_work(Stream& stream, Work work);

/// Runs the stream's work up to and including its `ticket`-th; returns false if it stalls before.
/// Requires stream_mutex().
bool run_until(Stream& stream, uint64_t ticket);

/// Call when stalled streams may be able to continue.
void wake_waiting_hosts();
/// Waits for that, or for some milliseconds.
void wait_for_change(std::unique_lock<std::recursive_mutex>& lock);

/// Runs everything enqueued on the streams of the calling thread's device.
void finish_device();

}  // namespace emulator
