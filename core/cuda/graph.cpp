#include "core/cuda/graph.h"

#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "core/cuda/stream.h"
#include "core/error.h"

namespace tessera::cuda {
namespace {

struct DestroyGraph {
  void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
};
/// The captured graph; null if nothing was enqueued.
using Captured = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, DestroyGraph>;

/// Captures a stream for its lifetime. Other threads, such as ranks and libraries, are not
/// restricted meanwhile.
class Capture {
 public:
  explicit Capture(cudaStream_t stream) : stream_(stream) {
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
          "cudaStreamBeginCapture");
  }
  ~Capture() {
    if (stream_ != nullptr) {
      cudaGraph_t graph = nullptr;
      cudaStreamEndCapture(stream_, &graph);
      if (graph != nullptr) cudaGraphDestroy(graph);
    }
    cudaGetLastError();  // left by an invalidated capture
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  Captured end() {
    cudaGraph_t graph = nullptr;
    const cudaError_t code = cudaStreamEndCapture(std::exchange(stream_, nullptr), &graph);
    Captured captured(graph);
    check(code, "cudaStreamEndCapture");
    size_t nodes = 0;
    check(cudaGraphGetNodes(graph, nullptr, &nodes), "cudaGraphGetNodes");
    return nodes > 0 ? std::move(captured) : nullptr;
  }

 private:
  cudaStream_t stream_;
};

cudaGraphExec_t instantiate(const Captured& captured) {
  cudaGraphExec_t part = nullptr;
  if (captured) check(cudaGraphInstantiate(&part, captured.get(), 0), "cudaGraphInstantiate");
  return part;
}

using Kept = std::vector<std::shared_ptr<const void>>;

/// Objects that the graph under capture keeps alive; null if the calling thread captures none.
thread_local Kept* kept_for_recording = nullptr;

}  // namespace

// Parts are instantiated, which takes memory, only when all are captured. If a rank runs out of
// memory here, it fails after its last collective, and no other rank waits for it in one.
Graph::Graph(const std::function<void(const Cut&)>& body) {
  std::vector<Captured> captured;
  std::optional<Capture> capture(std::in_place, stream());
  kept_for_recording = &kept_;
  try {
    body([&] {
      captured.push_back(capture->end());
      capture.emplace(stream());
    });
    captured.push_back(capture->end());
    kept_for_recording = nullptr;
    for (const Captured& part : captured) parts_.push_back(instantiate(part));
  } catch (...) {
    kept_for_recording = nullptr;
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
    bound_queue();
  }
}

// A graph that still runs must end before its memory is freed.
void Graph::release() {
  for (void* part : parts_) {
    if (part != nullptr) cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(part));
  }
}

size_t bytes_free_for_graphs() {
  size_t free_bytes = 0, total_bytes = 0;
  check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  return free_bytes;
}

void keep_for_recording(std::shared_ptr<const void> owner) {
  if (kept_for_recording != nullptr) kept_for_recording->push_back(std::move(owner));
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
