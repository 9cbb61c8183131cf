#include "core/cuda/graph.h"

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

  /// Lives as long as the capture does.
  cudaGraph_t end() {
    const cudaError_t code = cudaStreamEndCapture(std::exchange(stream_, nullptr), &graph_);
    check(code, "cudaStreamEndCapture");
    return graph_;
  }

 private:
  cudaStream_t stream_;
  cudaGraph_t graph_ = nullptr;
};

}  // namespace

Graph::Graph(const std::function<void()>& body) {
  Capture capture(stream());
  body();
  cudaGraphExec_t recorded = nullptr;
  check(cudaGraphInstantiate(&recorded, capture.end(), 0), "cudaGraphInstantiate");
  recorded_ = recorded;
}

void Graph::launch() const {
  check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(recorded_), stream()), "cudaGraphLaunch");
}

// One that still runs ends before its memory is freed.
void Graph::release(void* recorded) {
  if (recorded != nullptr) cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(recorded));
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
