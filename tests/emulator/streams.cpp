// Streams and events. Work runs immediately or, with TESSERA_EMULATOR_LAZY=1, as late as a GPU may
// run it: when the host or another stream waits for it. This exposes missing waits. A stream stalls
// at work that cannot be done yet, such as a collective that other ranks have not reached.

#include "tests/emulator/streams.h"

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <string_view>
#include <vector>

#include "tests/emulator/deadlock.h"
#include "tests/emulator/device_memory.h"

namespace emulator {

struct Event {
  Stream* stream = nullptr;
  uint64_t ticket = 0;                   // reached when the stream has done this much
  std::shared_ptr<Recording> recording;  // the capture it was recorded in, if any
  Reach reach;
};

namespace {

struct Streams {
  std::recursive_mutex mutex;
  std::condition_variable_any changed;
  std::vector<std::unique_ptr<Stream>> all;
  Stream legacy;  // the null stream
};

Streams& streams() {
  static auto* instance = new Streams;
  return *instance;
}

std::atomic<uint64_t> zeroed = 0;

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && std::string_view(value) == "1";
}

bool lazy() { return is_set("TESSERA_EMULATOR_LAZY") && !is_set("CUDA_LAUNCH_BLOCKING"); }

Stream& named(Stream* stream) { return stream == nullptr ? streams().legacy : *stream; }

/// Returns whether it is done. Repeated polls make progress.
cudaError_t query(Stream& stream, uint64_t ticket) {
  if (stream.done >= ticket) return cudaSuccess;
  const bool there = run_until(stream, lazy() ? stream.done + 1 : ticket);
  if (there && !lazy()) return cudaSuccess;
  if (!there) host_has_asked();
  return remember(cudaErrorNotReady);
}

/// Tries the stream's first piece of work; returns whether it was done. Exceptions are errors of
/// the emulator, because a GPU does not throw.
bool try_head(Stream& stream) {
  stream.running = true;
  try {
    const bool is_done = stream.work.front()();
    stream.running = false;
    return is_done;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "emulated GPU: work on a stream failed: %s\n", error.what());
    std::abort();
  }
}

void wait_for(Stream& stream, uint64_t ticket) {
  std::unique_lock lock(streams().mutex);
  while (!run_until(stream, ticket)) {
    const HostWait wait;
    fail_if_all_wait();
    wait_for_change(lock);
  }
}

void finish(Stream* stream) { wait_for(named(stream), named(stream).enqueued); }

/// Returns whether memory was allocated neither on the GPU nor by cudaMallocHost or
/// cudaMallocManaged.
bool is_pageable(const void* data) {
  return !is_allocated_host(data) && !is_allocated_device(data);
}

/// Returns whether the event was captured, so that the host may not query it. Invalidates that
/// capture.
bool is_captured(const Event& event) {
  if (event.recording == nullptr) return false;
  event.recording->broken = true;
  return true;
}

/// Adds the stream to the event's capture, unless it is part of it already.
cudaError_t wait_in_capture(Stream& stream, const Event& event) {
  if (event.recording->ended) return cudaErrorCapturedEvent;
  if (!stream.capture.active()) stream.capture.join(event.recording, stream);
  if (stream.capture.recording() != event.recording) {
    stream.capture.forbids();
    event.recording->broken = true;
    return cudaErrorStreamCaptureMerge;
  }
  stream.capture.follow(event.reach);
  return cudaSuccess;
}

cudaError_t create(cudaStream_t* stream, const char* call) {
  require_device(call);
  const std::lock_guard lock(streams().mutex);
  *stream = streams().all.emplace_back(new Stream).get();
  return cudaGetDevice(&(*stream)->device);
}

}  // namespace

std::recursive_mutex& stream_mutex() { return streams().mutex; }

void wake_waiting_hosts() { streams().changed.notify_all(); }

void wait_for_change(std::unique_lock<std::recursive_mutex>& lock) {
  constexpr auto kBetweenLooks = std::chrono::milliseconds(20);
  streams().changed.wait_for(lock, kBetweenLooks);
}

bool run_until(Stream& stream, uint64_t ticket) {
  if (stream.running) return stream.done >= ticket;  // called by this stream's own work
  while (stream.done < ticket) {
    if (!try_head(stream)) return false;
    stream.work.pop_front();
    ++stream.done;
    something_happens();
  }
  return true;
}

void enqueue_work(Stream& stream, Work work) {
  const std::lock_guard lock(streams().mutex);
  stream.work.push_back(std::move(work));
  ++stream.enqueued;
  something_happens();
  if (!lazy()) run_until(stream, stream.enqueued);
}

uint64_t zeroed_bytes() { return zeroed; }

/// As on a GPU, the host blocks when the queue is full.
void wait_for_room(Stream& stream) {
  constexpr uint64_t kRoom = 1024;
  uint64_t enqueued = 0;
  {
    const std::lock_guard lock(streams().mutex);
    if (stream.capture.active() || stream.running) return;
    enqueued = stream.enqueued;
  }
  if (enqueued >= kRoom) wait_for(stream, enqueued - kRoom + 1);
}

void enqueue(Stream* stream, std::function<void()> work) {
  if (stream == nullptr) finish_device();  // the null stream waits for all others
  wait_for_room(named(stream));
  enqueue_node(named(stream), [work = std::move(work)](Stream& on) {
    enqueue_work(on, [work] {
      work();
      return true;
    });
  });
}

void enqueue_node(Stream& stream, Node node) {
  const std::lock_guard lock(streams().mutex);
  if (stream.capture.active()) return stream.capture.add(std::move(node));
  node(stream);
}

void finish_device() {
  int device = 0;
  cudaGetDevice(&device);
  std::vector<Stream*> of_device = {&streams().legacy};
  {
    const std::lock_guard lock(streams().mutex);
    for (const auto& stream : streams().all) {
      if (stream->device == device) of_device.push_back(stream.get());
    }
  }
  for (Stream* stream : of_device) finish(stream);
}

}  // namespace emulator

using emulator::streams;

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind /*kind*/,
                            cudaStream_t stream) {
  const bool waits = emulator::is_pageable(from) || emulator::is_pageable(to);
  if (waits && emulator::named(stream).capture.forbids()) return cudaErrorStreamCaptureUnsupported;
  // A copy from pageable memory has read it on return; a copy to it is complete.
  std::shared_ptr<std::byte[]> staged;
  if (emulator::is_pageable(from)) {
    staged.reset(new std::byte[bytes]);
    std::memcpy(staged.get(), from, bytes);
  }
  emulator::enqueue(stream, [=] {
    const emulator::DeviceAccess access;
    std::memmove(to, staged ? staged.get() : from, bytes);
  });
  if (emulator::is_pageable(to)) emulator::finish(stream);
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  emulator::enqueue(stream, [=] {
    const emulator::DeviceAccess access;
    std::memset(to, value, bytes);
    if (value == 0) emulator::zeroed += bytes;
  });
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned /*flags*/) {
  return emulator::create(stream, "cudaStreamCreateWithFlags");
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned /*flags*/,
                                         int /*priority*/) {
  return emulator::create(stream, "cudaStreamCreateWithPriority");
}
cudaError_t cudaStreamDestroy(cudaStream_t /*stream*/) {
  return cudaSuccess;  // kept, because its work is still run and events may refer to it
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (emulator::named(stream).capture.forbids()) return cudaErrorStreamCaptureUnsupported;
  emulator::finish(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const std::lock_guard lock(streams().mutex);
  if (emulator::named(stream).capture.forbids()) return cudaErrorStreamCaptureUnsupported;
  return emulator::query(emulator::named(stream), emulator::named(stream).enqueued);
}
cudaError_t cudaDeviceSynchronize() {
  if (emulator::thread_capture_forbids()) return cudaErrorStreamCaptureUnsupported;
  emulator::finish_device();
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  emulator::require_device("cudaEventCreateWithFlags");
  *event = new emulator::Event;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::lock_guard lock(streams().mutex);
  emulator::Stream& which = emulator::named(stream);
  *event = {&which, which.enqueued, which.capture.recording(), which.capture.reach()};
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  const std::lock_guard lock(streams().mutex);
  emulator::Stream& which = emulator::named(stream);
  if (event->stream == nullptr) return cudaSuccess;
  if (event->recording != nullptr) return emulator::wait_in_capture(which, *event);
  if (which.capture.forbids()) return cudaErrorStreamCaptureIsolation;
  // The event's current meaning: it may be recorded again before the stream gets here.
  emulator::enqueue_work(which, [on = event->stream, ticket = event->ticket] {
    return emulator::run_until(*on, ticket);
  });
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  emulator::require_device("cudaEventSynchronize");
  if (emulator::is_captured(*event)) return cudaErrorCapturedEvent;
  if (event->stream != nullptr) emulator::wait_for(*event->stream, event->ticket);
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::lock_guard lock(streams().mutex);
  if (emulator::is_captured(*event)) return cudaErrorCapturedEvent;
  return event->stream == nullptr ? cudaSuccess : emulator::query(*event->stream, event->ticket);
}
