// Captured streams and the resulting graphs, whose nodes run in capture order. Stricter than a GPU:
// captures reject copies from or to pageable memory.

#include "tests/emulator/graphs.h"

#include <algorithm>
#include <utility>

#include "tests/emulator/streams.h"

namespace emulator {
namespace {

thread_local std::shared_ptr<Recording> of_thread;

/// Ends the recording on all its streams. Returns whether all of their work was joined to the
/// first.
bool end(Recording& recording) {
  const Reach known = recording.origin->capture.reach();
  bool joined = true;
  for (Stream* stream : recording.streams) {
    const Reach& reach = stream->capture.reach();
    const auto own = reach.find(stream), seen = known.find(stream);
    joined &= own == reach.end() || (seen != known.end() && seen->second == own->second);
    stream->capture.leave();
  }
  recording.ended = true;
  return joined;
}

}  // namespace

struct GraphExec {
  Graph graph;
};

void Capture::join(std::shared_ptr<Recording> recording, Stream& stream) {
  recording->streams.push_back(&stream);
  recording_ = std::move(recording);
  stream_ = &stream;
}

void Capture::follow(const Reach& reach) {
  for (const auto& [stream, nodes] : reach) reach_[stream] = std::max(reach_[stream], nodes);
}

void Capture::add(Node node) {
  recording_->graph.nodes.push_back(std::move(node));
  ++reach_[stream_];
}

bool Capture::forbids() {
  if (active()) recording_->broken = true;
  return active();
}

bool thread_capture_forbids() {
  if (of_thread != nullptr) of_thread->broken = true;
  return of_thread != nullptr;
}

}  // namespace emulator

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode /*mode*/) {
  const std::lock_guard lock(emulator::stream_mutex());
  if (stream == nullptr || stream->capture.forbids()) return cudaErrorStreamCaptureUnsupported;
  emulator::of_thread = std::make_shared<emulator::Recording>();
  emulator::of_thread->origin = stream;
  stream->capture.join(emulator::of_thread, *stream);
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::lock_guard lock(emulator::stream_mutex());
  *graph = nullptr;
  if (!stream->capture.active()) return cudaErrorInvalidValue;
  const std::shared_ptr<emulator::Recording> recording = stream->capture.recording();
  if (recording->origin != stream || recording != emulator::of_thread) {
    stream->capture.forbids();
    return cudaErrorStreamCaptureUnmatched;
  }
  emulator::of_thread = nullptr;
  const bool joined = emulator::end(*recording);
  if (recording->broken) return cudaErrorStreamCaptureInvalidated;
  if (!joined) return cudaErrorStreamCaptureUnjoined;
  *graph = new emulator::Graph(std::move(recording->graph));
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const std::lock_guard lock(emulator::stream_mutex());
  const emulator::Capture& capture = stream->capture;
  *status = capture.broken()   ? cudaStreamCaptureStatusInvalidated
            : capture.active() ? cudaStreamCaptureStatusActive
                               : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, void* nodes, size_t* count) {
  if (nodes != nullptr) return cudaErrorInvalidValue;  // only counting is supported
  *count = graph->nodes.size();
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                 unsigned long long /*flags*/) {
  if (emulator::thread_capture_forbids()) return cudaErrorStreamCaptureUnsupported;
  *exec = new emulator::GraphExec{*graph};
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  const std::lock_guard lock(emulator::stream_mutex());
  if (stream->capture.forbids()) return cudaErrorStreamCaptureUnsupported;
  for (const emulator::Node& node : exec->graph.nodes) node(*stream);
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
