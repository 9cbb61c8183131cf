#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "core/device.h"

namespace tessera::cuda {

/// Work of the calling thread that is captured once and launched repeatedly, part by part (CUDA
/// graphs). Kernels, addresses, sizes and host numbers are fixed at capture.
class Graph {
 public:
  /// Ends a part; call it during capture. Later work is in the next part.
  using Cut = std::function<void()>;

  /// Captures what `body` enqueues on this thread's stream; nothing runs. Throws what `body`
  /// throws, and throws if `body` does what cannot be captured, such as waiting or allocating. The
  /// stream is restored in that case.
  explicit Graph(const std::function<void()>& body) : Graph([&](const Cut&) { body(); }) {}
  explicit Graph(const std::function<void(const Cut&)>& body);
  ~Graph() {
    if constexpr (kHasCuda) release();
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// Launches all parts on the calling thread's stream, and calls at_cut(i) between parts i and i +
  /// 1.
  void launch(const std::function<void(size_t)>& at_cut = {}) const;

 private:
  void release();

  std::vector<void*> parts_;  ///< each a cudaGraphExec_t, or null if the part is empty
  std::vector<std::shared_ptr<const void>> kept_;
};

/// The free memory of the calling thread's GPU, of which the driver gives graphs theirs.
size_t bytes_free_for_graphs();

/// Whether the calling thread is capturing, so that nothing it enqueues runs.
bool is_recording();

/// If the calling thread is capturing, its graph keeps `owner` alive. Use it for owners of code or
/// memory that was just enqueued.
void keep_for_recording(std::shared_ptr<const void> owner);

/// Throws, naming `what`, if the calling thread is capturing. For work that waits or allocates and
/// must happen before.
void require_not_recording(const char* what);

}  // namespace tessera::cuda
