#include "core/cuda/graph.h"

#include <optional>
#include <utility>

#include "core/cuda/stream.h"
#include "core/error.h"

namespace tessera::cuda {
namespace {

/// A stream that is captured while this lives. Other threads, ranks and libraries' own, go on as
/// they like meanwhile.
class Capture {
 public:
  explicit Capture(cudaStream_t stream) : stream_(stream) {
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
          "cudaStreamBeginCapture");
  }
  ~Capture() {
    if (stream_ != nullptr) cudaStreamEndCapture(stream_, &graph_);
    if (graph_ != nullptr) cudaGraphDestroy(graph_);
    cudaGetLastError();  // what a broken capture left
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  /// Ends it. Null if nothing was enqueued.
  cudaGraphExec_t end() {
    const cudaError_t code = cudaStreamEndCapture(std::exchange(stream_, nullptr), &graph_);
    check(code, "cudaStreamEndCapture");
    size_t nodes = 0;
    check(cudaGraphGetNodes(graph_, nullptr, &nodes), "cudaGraphGetNodes");
    cudaGraphExec_t recorded = nullptr;
    if (nodes > 0) check(cudaGraphInstantiate(&recorded, graph_, 0), "cudaGraphInstantiate");
    return recorded;
  }

 private:
  cudaStream_t stream_;
  cudaGraph_t graph_ = nullptr;
};

}  // namespace

Graph::Graph(const std::function<void(const Cut&)>& body) {
  std::optional<Capture> capture(std::in_place, stream());
  try {
    body([&] {
      parts_.push_back(capture->end());
      capture.emplace(stream());
    });
    parts_.push_back(capture->end());
  } catch (...) {
    capture.reset();
    release();
    throw;
  }
}

void Graph::launch(const std::function<void(size_t)>& at_cut) const {
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (i > 0) at_cut(i - 1);
    if (parts_[i] == nullptr) continue;
    check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(parts_[i]), stream()), "cudaGraphLaunch");
  }
}

// One that still runs ends before its memory is freed.
void Graph::release() {
  for (void* part : parts_) {
    if (part != nullptr) cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(part));
  }
}

bool is_recording() {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream(), &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

void require_not_recording(const char* what) {
  require(!is_recording(), "{} while a CUDA graph is recorded", what);
}

}  // namespace tessera::cuda
