#pragma once

#include <cuda_runtime.h>

#include "core/cuda/stream.h"

namespace tessera {

/// A point in a stream that other streams can wait for.
class NcclEvent {
 public:
  NcclEvent() {
    cuda::check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreate");
  }
  ~NcclEvent() { cudaEventDestroy(event_); }
  NcclEvent(const NcclEvent&) = delete;
  NcclEvent& operator=(const NcclEvent&) = delete;

  void record(cudaStream_t stream) {
    cuda::check(cudaEventRecord(event_, stream), "cudaEventRecord");
  }
  /// Makes work enqueued on `stream` from now on wait for this point.
  void hold(cudaStream_t stream) const {
    cuda::check(cudaStreamWaitEvent(stream, event_, 0), "cudaStreamWaitEvent");
  }
  bool done() const {
    const cudaError_t code = cudaEventQuery(event_);
    if (!cuda::is_done(code)) return false;
    cuda::check(code, "the work on the stream");
    return true;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

/// A communicator's own stream, separate from the ops' stream.
class NcclStream {
 public:
  NcclStream() {
    // Highest priority: whatever waits for a collective waits for all ranks.
    int lowest = 0, highest = 0;
    cuda::check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "the priorities of streams");
    cuda::check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, highest),
                "cudaStreamCreate");
  }
  ~NcclStream() { cudaStreamDestroy(stream_); }
  NcclStream(const NcclStream&) = delete;
  NcclStream& operator=(const NcclStream&) = delete;

  cudaStream_t get() const { return stream_; }

  /// Makes work enqueued on this stream from now on wait for all work on the ops' stream.
  void follow_ops() {
    before_.record(cuda::stream());
    before_.hold(stream_);
  }

 private:
  cudaStream_t stream_ = nullptr;
  NcclEvent before_;
};

}  // namespace tessera
