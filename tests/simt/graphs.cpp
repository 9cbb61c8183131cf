// Streams that are captured, and the graphs that come of it. Stricter than a GPU: a capture is of
// one stream, without events, and takes no copies from or to pageable memory.

#include "tests/simt/graphs.h"

#include <memory>
#include <utility>

#include "tests/simt/streams.h"

namespace simt {
namespace {

thread_local Capture* of_thread = nullptr;

}  // namespace

struct GraphExec {
  std::shared_ptr<const Graph> graph;  // which launches that are under way keep
};

void Capture::begin() {
  *this = {};
  active_ = true;
  of_thread = this;
}

bool Capture::end(Graph& graph) {
  if (!broken_) graph = std::move(graph_);
  const bool whole = !broken_;
  *this = {};
  of_thread = nullptr;
  return whole;
}

bool thread_capture_forbids() { return of_thread != nullptr && of_thread->forbids(); }

}  // namespace simt

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode /*mode*/) {
  if (stream == nullptr || stream->capture.forbids()) return cudaErrorStreamCaptureUnsupported;
  stream->capture.begin();
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  if (!stream->capture.active()) return cudaErrorInvalidValue;
  auto captured = std::make_unique<simt::Graph>();
  if (!stream->capture.end(*captured)) return cudaErrorStreamCaptureInvalidated;
  *graph = captured.release();
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const simt::Capture& capture = stream->capture;
  *status = capture.broken()   ? cudaStreamCaptureStatusInvalidated
            : capture.active() ? cudaStreamCaptureStatusActive
                               : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, void* nodes, size_t* count) {
  if (nodes != nullptr) return cudaErrorInvalidValue;  // only to be counted
  *count = graph->work.size();
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                 unsigned long long /*flags*/) {
  if (simt::thread_capture_forbids()) return cudaErrorStreamCaptureUnsupported;
  *exec = new simt::GraphExec{std::make_shared<const simt::Graph>(*graph)};
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  simt::enqueue(stream, [graph = exec->graph] {
    for (const std::function<void()>& work : graph->work) work();
  });
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return cudaSuccess;
}
