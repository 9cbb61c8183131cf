// Streams and events. Work is done at once, or with TESSERA_SIMT_LAZY=1 as late as a GPU may do it:
// when the host, or another stream, waits for it, so that a wait that is missing shows.

#include "tests/simt/streams.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "tests/simt/device_memory.h"

namespace simt {

struct Event {
  Stream* stream = nullptr;
  uint64_t ticket = 0;  // reached when the stream has done as much
};

namespace {

struct Streams {
  std::recursive_mutex mutex;  // work may wait for other streams' work
  std::vector<std::unique_ptr<Stream>> all;
  Stream legacy;  // the null stream
};

Streams& streams() {
  static auto* instance = new Streams;
  return *instance;
}

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && std::string_view(value) == "1";
}

bool lazy() { return is_set("TESSERA_SIMT_LAZY") && !is_set("CUDA_LAUNCH_BLOCKING"); }

void run_until(Stream& stream, uint64_t ticket) {
  while (stream.done < ticket) {
    const std::function<void()> work = std::move(stream.work.front());
    stream.work.pop_front();
    work();
    ++stream.done;
  }
}

Stream& named(Stream* stream) { return stream == nullptr ? streams().legacy : *stream; }

/// Whether it is done; who asks often gets there.
cudaError_t query(Stream& stream, uint64_t ticket) {
  if (stream.done >= ticket) return cudaSuccess;
  run_until(stream, stream.done + 1);
  return cudaErrorNotReady;
}

void finish(Stream* stream) {
  const std::lock_guard lock(streams().mutex);
  Stream& which = named(stream);
  run_until(which, which.enqueued);
}

/// Memory that belongs to neither the GPU nor cudaMallocHost or cudaMallocManaged.
bool is_pageable(const void* data) {
  return !is_allocated_host(data) && !is_allocated_device(data);
}

}  // namespace

void enqueue(Stream* stream, std::function<void()> work) {
  const std::lock_guard lock(streams().mutex);
  if (named(stream).capture.active()) return named(stream).capture.add(std::move(work));
  if (stream == nullptr) finish_all();  // the null stream waits for all others
  if (!lazy()) {
    finish(stream);
    work();
    return;
  }
  Stream& which = named(stream);
  which.work.push_back(std::move(work));
  ++which.enqueued;
}

void finish_all() {
  const std::lock_guard lock(streams().mutex);
  for (const auto& stream : streams().all) finish(stream.get());
  finish(nullptr);
}

}  // namespace simt

using simt::streams;

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind /*kind*/,
                            cudaStream_t stream) {
  const bool waits = simt::is_pageable(from) || simt::is_pageable(to);
  if (waits && simt::named(stream).capture.forbids()) return cudaErrorStreamCaptureUnsupported;
  // A copy from pageable memory has read it when it returns; one to it is done.
  std::shared_ptr<std::byte[]> staged;
  if (simt::lazy() && simt::is_pageable(from)) {
    staged.reset(new std::byte[bytes]);
    std::memcpy(staged.get(), from, bytes);
  }
  simt::enqueue(stream, [=] {
    const simt::DeviceAccess access;
    std::memmove(to, staged ? staged.get() : from, bytes);
  });
  if (simt::is_pageable(to)) simt::finish(stream);
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  simt::enqueue(stream, [=] {
    const simt::DeviceAccess access;
    std::memset(to, value, bytes);
  });
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned /*flags*/) {
  const std::lock_guard lock(streams().mutex);
  *stream = streams().all.emplace_back(new simt::Stream).get();
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  simt::finish(stream);  // and keep it: events may know it still
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (simt::named(stream).capture.forbids()) return cudaErrorStreamCaptureUnsupported;
  simt::finish(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const std::lock_guard lock(streams().mutex);
  if (simt::named(stream).capture.forbids()) return cudaErrorStreamCaptureUnsupported;
  return simt::query(simt::named(stream), simt::named(stream).enqueued);
}
cudaError_t cudaDeviceSynchronize() {
  if (simt::thread_capture_forbids()) return cudaErrorStreamCaptureUnsupported;
  simt::finish_all();
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  *event = new simt::Event;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::lock_guard lock(streams().mutex);
  if (simt::named(stream).capture.forbids()) return cudaErrorStreamCaptureUnsupported;
  event->stream = &simt::named(stream);
  event->ticket = event->stream->enqueued;
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  if (simt::named(stream).capture.forbids()) return cudaErrorStreamCaptureUnsupported;
  // What the event stands for now: it may be recorded anew before the stream comes here.
  simt::enqueue(stream, [recorded = *event] {
    if (recorded.stream != nullptr) simt::run_until(*recorded.stream, recorded.ticket);
  });
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const std::lock_guard lock(streams().mutex);
  if (event->stream != nullptr) simt::run_until(*event->stream, event->ticket);
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::lock_guard lock(streams().mutex);
  return event->stream == nullptr ? cudaSuccess : simt::query(*event->stream, event->ticket);
}
