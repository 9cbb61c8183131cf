#pragma once

#include <functional>

#include "core/device.h"

namespace tessera::cuda {

/// Work of the calling thread that was recorded once and is enqueued again by one call (a CUDA
/// graph). What was recorded is fixed: kernels, addresses, sizes and all numbers that the host gave
/// them.
class Graph {
 public:
  /// Records what `body` enqueues on this thread's stream, of which nothing runs. Throws what
  /// `body` throws, and if it did what can not be recorded: the host waited, or memory was
  /// allocated. The stream is as before then.
  explicit Graph(const std::function<void()>& body);
  ~Graph() {
    if constexpr (kHasCuda) release(recorded_);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// Enqueues all of it on the calling thread's stream.
  void launch() const;

 private:
  static void release(void* recorded);

  void* recorded_ = nullptr;  ///< a cudaGraphExec_t
};

/// Whether the calling thread is recording, so that nothing that it enqueues runs.
bool is_recording();

/// Throws, naming `what`, if the calling thread is recording: for what waits or allocates, which
/// has to be done before.
void require_not_recording(const char* what);

}  // namespace tessera::cuda
