#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "core/device.h"

namespace tessera::cuda {

/// Work of the calling thread that was recorded once and is enqueued again part by part, each by
/// one call (a CUDA graph). What was recorded is fixed: kernels, addresses, sizes and all numbers
/// that the host gave them.
class Graph {
 public:
  /// To be called while a graph is recorded: ends a part. What comes after it is in the next.
  using Cut = std::function<void()>;

  /// Records what `body` enqueues on this thread's stream, of which nothing runs. Throws what
  /// `body` throws, and if it did what can not be recorded: the host waited, or memory was
  /// allocated. The stream is as before then.
  explicit Graph(const std::function<void()>& body) : Graph([&](const Cut&) { body(); }) {}
  explicit Graph(const std::function<void(const Cut&)>& body);
  ~Graph() {
    if constexpr (kHasCuda) release();
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// Enqueues all of it on the calling thread's stream, and calls at_cut(i) between parts i and
  /// i + 1.
  void launch(const std::function<void(size_t)>& at_cut = {}) const;

 private:
  void release();

  std::vector<void*> parts_;  ///< each a cudaGraphExec_t, or null where nothing was enqueued
  std::vector<std::shared_ptr<const void>> kept_;
};

/// Whether the calling thread is recording, so that nothing that it enqueues runs.
bool is_recording();

/// If the calling thread is recording, its graph keeps `owner` for as long as it lives: for what
/// owns code or memory that was just enqueued.
void keep_for_recording(std::shared_ptr<const void> owner);

/// Throws, naming `what`, if the calling thread is recording: for what waits or allocates, which
/// has to be done before.
void require_not_recording(const char* what);

}  // namespace tessera::cuda
