#include "tests/emulator/nccl/check.h"

#include "tests/emulator/device_memory.h"

namespace emulator {
namespace {

/// "ncclSend of 3 ncclFloat32 to rank 1 on rank 0 of communicator 2 (2 ranks)"
std::string whole(const ncclComm& comm, const NcclCall& call) {
  return describe(call) + " on " + comm.name();
}

void check_buffer(const ncclComm& comm, const NcclCall& call, const char* name, const void* data,
                  size_t bytes) {
  if (bytes == 0) return;
  const int device = device_of(data, bytes);
  const std::string what =
      whole(comm, call) + ": the " + std::to_string(bytes) + " bytes of " + name;
  if (device == kNoDevice)
    nccl_fail(what + " are not all in one block of memory that the GPU can access");
  if (device != kAnyDevice && device != comm.device) {
    nccl_fail(what + " are on GPU " + std::to_string(device) + ", but the rank is on GPU " +
              std::to_string(comm.device));
  }
  if (reinterpret_cast<uintptr_t>(data) % bytes_of(call.type) != 0) {
    nccl_fail(what + " are not aligned to an element");
  }
}

/// Returns whether the buffers overlap as NCCL's in-place calls allow: the smaller one is a part of
/// the larger.
bool in_place(const ncclComm& comm, const NcclCall& call) {
  const auto* send = static_cast<const std::byte*>(call.send);
  const auto* recv = static_cast<const std::byte*>(call.recv);
  const size_t place = static_cast<size_t>(comm.rank) * call.count * bytes_of(call.type);
  if (call.kind == NcclKind::all_gather) return send == recv + place;
  if (call.kind == NcclKind::reduce_scatter) return recv == send + place;
  return send == recv;
}

}  // namespace

void check_call(const ncclComm& comm, const NcclCall& call, const Stream* stream) {
  int device = 0;
  cudaGetDevice(&device);
  if (device != comm.device) {
    nccl_fail(whole(comm, call) + ": it is on GPU " + std::to_string(comm.device) +
              ", but the calling thread's is " + std::to_string(device));
  }
  if (stream == nullptr)
    nccl_fail(whole(comm, call) + ": the null stream would wait for all others");
  if (stream->device != comm.device) {
    nccl_fail(whole(comm, call) + ": the stream is on GPU " + std::to_string(stream->device) +
              ", but the rank is on GPU " + std::to_string(comm.device));
  }
  const NcclBytes bytes = buffer_bytes(call, comm.rank, comm.clique->size());
  check_buffer(comm, call, "the send buffer", call.send, bytes.send);
  check_buffer(comm, call, "the receive buffer", call.recv, bytes.recv);
  if (bytes.send == 0 || bytes.recv == 0 || in_place(comm, call)) return;
  const auto* send = static_cast<const std::byte*>(call.send);
  const auto* recv = static_cast<const std::byte*>(call.recv);
  if (send < recv + bytes.recv && recv < send + bytes.send) {
    nccl_fail(whole(comm, call) +
              ": the buffers overlap, and not as they do in place: the receive "
              "buffer begins " +
              std::to_string(recv - send) + " bytes after the send buffer");
  }
}

}  // namespace emulator
