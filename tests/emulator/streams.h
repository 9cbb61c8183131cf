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
  bool running = false;  ///< what it has at its head is being tried
  Capture capture;
};

/// Ends the process if there are several GPUs and the calling thread has chosen none: a GPU's
/// runtime takes the first then, and some of its memory for another context.
void require_device(const char* call);

/// Makes `code` what cudaGetLastError tells the calling thread, and gives it back.
cudaError_t remember(cudaError_t code);
/// Ends the process if there is one: a library that looks after its launches would fail.
void require_no_error(const char* call);

/// Guards all streams, events and what they stand still for. Held while work is done.
std::recursive_mutex& stream_mutex();

/// The last call's `work` may say that it cannot be done yet; then the stream stands still there.
void enqueue_work(Stream& stream, Work work);

/// Does the stream's work up to and with its `ticket`-th; false if it stands still before. With
/// stream_mutex() held.
bool run_until(Stream& stream, uint64_t ticket);

/// To be called when what a stream stands still for may have come.
void wake_waiting_hosts();
/// Waits for that, or some milliseconds.
void wait_for_change(std::unique_lock<std::recursive_mutex>& lock);

/// Does all that was enqueued on the streams of the calling thread's device.
void finish_device();

}  // namespace emulator
