// NCCL's functions. Communicators are blocking: their creation and end wait for all ranks, and
// unless NCCL_RUNTIME_CONNECT is 0 so does the first call of each kind.

#include <nccl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tests/emulator/deadlock.h"
#include "tests/emulator/device_memory.h"
#include "tests/emulator/nccl/check.h"
#include "tests/emulator/nccl/connection.h"
#include "tests/emulator/nccl/faults.h"
#include "tests/emulator/nccl/local_clique.h"
#include "tests/emulator/nccl/remote_clique.h"
#include "tests/emulator/nccl/remote_rank.h"

using emulator::NcclCall;
using emulator::NcclClique;
using emulator::NcclKind;
using State = ncclComm::State;

namespace {

thread_local int group_depth = 0;
thread_local std::string last_error_of_thread;

/// The contents of an id.
struct Id {
  pid_t process;
  uint64_t number;
};

/// Communicators that the calling thread has aborted without waiting for their end yet.
thread_local std::vector<const ncclComm*> aborted;

/// Aborts wait until no graph contains a call of the communicator, and, because they free memory,
/// until the GPU has no kernels of communicators that are not aborted. NCCL's own would wait
/// forever.
void end_aborts() {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  const auto wait_while = [&](const ncclComm& comm, const char* what, const auto& condition) {
    while (true) {
      {
        const std::lock_guard lock(emulator::stream_mutex());
        if (!condition()) return;
      }
      if (std::chrono::steady_clock::now() > deadline) {
        emulator::nccl_fail("ncclCommAbort of " + comm.name() + " waits for " + what);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  for (const ncclComm* comm : aborted) {
    wait_while(*comm, "a graph that contains its calls",
               [&] { return comm->graphs.use_count() > 1; });
    wait_while(*comm, "kernels of communicators that are not aborted",
               [&] { return emulator::has_nccl_kernels(comm->device); });
  }
  aborted.clear();
}

ncclResult_t refuse(ncclResult_t code, const std::string& why) {
  last_error_of_thread = why;
  return code;
}

void enter(ncclComm& comm, State state) {
  comm.state = state;
  if (state == State::ended) emulator::return_device_bytes(comm.device_bytes, comm.device);
  comm.clique->state_changed(comm);
  emulator::something_happens();
  emulator::wake_waiting_hosts();
}

void take_device_bytes(ncclComm& comm, size_t bytes) {
  comm.device_bytes += bytes;
  emulator::take_device_bytes(bytes, comm.device);
}

ncclComm& living(ncclComm_t comm, const char* function) {
  if (comm == nullptr) emulator::nccl_fail(std::string(function) + " without a communicator");
  if (comm->state == State::ended) {
    emulator::nccl_fail(std::string(function) + " on " + comm->name() + ", which has ended");
  }
  return *comm;
}

/// Waits, as a blocking function of NCCL does, until `done` returns true or the communicator fails.
ncclResult_t wait_until(ncclComm& comm, std::unique_lock<std::recursive_mutex>& lock,
                        const std::function<bool()>& done) {
  while (comm.error == ncclSuccess && !done()) {
    const emulator::HostWait wait;
    emulator::fail_if_all_wait();
    emulator::wait_for_change(lock);
  }
  return comm.error;
}

/// What one kernel does: one call, or a group's calls of a communicator.
struct Launch {
  ncclComm* comm;
  cudaStream_t stream;
  std::vector<NcclCall> calls;
};

/// The calling thread's group that is open, and the first error of its calls.
thread_local std::vector<Launch> group;
thread_local ncclResult_t group_error = ncclSuccess;

/// Requests connections for the communicator's first calls of a kind.
void request_connections(const Launch& launch) {
  for (const NcclCall& call : launch.calls) {
    ncclComm& comm = *launch.comm;
    if (comm.clique->connected(comm.rank, call)) continue;
    comm.connecting = call;
    comm.clique->connect(comm.rank, call);
    emulator::something_happens();
    emulator::wake_waiting_hosts();
  }
}

/// Starts all calls together.
ncclResult_t start(const std::vector<Launch>& launches,
                   std::unique_lock<std::recursive_mutex>& lock) {
  for (const Launch& launch : launches) request_connections(launch);
  for (const auto& [comm, stream, calls] : launches) {
    const ncclResult_t code = wait_until(*comm, lock, [&, which = comm] {
      return std::ranges::all_of(
          calls, [&](const NcclCall& call) { return which->clique->connected(which->rank, call); });
    });
    comm->connecting.reset();
    if (code != ncclSuccess) return code;
  }
  for (const auto& [comm, stream, calls] : launches) {
    comm->clique->enqueue(*comm, calls, *stream);
    // As in 2.28.9: a query of the previous launch, when graphs contain calls of the communicator.
    if (!stream->capture.active() && comm->graphs.use_count() > 1) {
      emulator::remember(cudaErrorNotReady);
    }
  }
  return ncclSuccess;
}

/// Checks a call, which may be refused.
ncclResult_t check(ncclComm& comm, const NcclCall& what, cudaStream_t stream) {
  comm.owner = std::this_thread::get_id();
  NcclClique& clique = *comm.clique;
  if (comm.state >= State::finalizing) {
    emulator::nccl_fail(describe(what) + " on " + comm.name() + ", which is finalized");
  }
  emulator::check_call(comm, what, stream);
  if (what.op != ncclSum && what.op != ncclMax) {
    return refuse(ncclInvalidArgument, describe(what) + ": only sums and maxima are emulated");
  }
  if (what.root < 0 || what.root >= clique.size() ||
      (what.is_message() && what.root == comm.rank)) {
    return refuse(ncclInvalidArgument, describe(what) + " on " + comm.name());
  }
  if (comm.error != ncclSuccess) return comm.error;
  const ncclResult_t fault = emulator::nccl_fault(comm.rank, comm.calls++);
  if (fault != ncclSuccess && clique.size() > 1) {
    comm.fail(fault, "a fault injected by a test");
    return fault;
  }
  if (what.count > 0 && comm.kinds.insert(what.kind).second) {
    take_device_bytes(comm, emulator::kNcclKindBytes);
  }
  return ncclSuccess;
}

ncclResult_t call(ncclComm_t which, const NcclCall& what, cudaStream_t stream) {
  std::unique_lock lock(emulator::stream_mutex());
  ncclComm& comm = living(which, describe(what).c_str());
  const ncclResult_t code = check(comm, what, stream);
  if (group_depth == 0) {
    return code != ncclSuccess || what.count == 0 ? code : start({{&comm, stream, {what}}}, lock);
  }
  if (group_error == ncclSuccess) group_error = code;
  if (code != ncclSuccess || what.count == 0) return code;
  auto launch = std::ranges::find(group, &comm, &Launch::comm);
  if (launch == group.end()) launch = group.insert(launch, {&comm, stream, {}});
  if (launch->stream != stream) {
    emulator::nccl_fail(describe(what) + " on " + comm.name() +
                        ": a group with several streams of a communicator is not emulated");
  }
  launch->calls.push_back(what);
  return ncclSuccess;
}

}  // namespace

const char* ncclGetLastError(ncclComm_t comm) {
  if (comm == nullptr || comm->last_error.empty()) return last_error_of_thread.c_str();
  return comm->last_error.c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::lock_guard lock(emulator::stream_mutex());
  emulator::listen_for_nccl();
  emulator::nccl_host();
  static uint64_t made = 0;
  const Id mine{getpid(), ++made};
  std::memset(id, 0, sizeof(*id));
  std::memcpy(id->internal, &mine, sizeof(mine));
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  std::unique_lock lock(emulator::stream_mutex());
  *comm = nullptr;
  Id whose;
  std::memcpy(&whose, id.internal, sizeof(whose));
  if (config == nullptr || config->magic != 0xcafebeefu || config->size != sizeof(*config)) {
    return refuse(ncclInvalidArgument, "ncclConfig_t is not set by NCCL_CONFIG_INITIALIZER");
  }
  if (config->blocking == 0) {
    return refuse(ncclInvalidUsage, "only blocking communicators are emulated");
  }
  if (ranks < 1 || rank < 0 || rank >= ranks) {
    return refuse(ncclInvalidArgument,
                  "Invalid rank requested : " + std::to_string(rank) + "/" + std::to_string(ranks));
  }
  NcclClique* clique = nullptr;
  if (whose.process == getpid()) {
    clique = &emulator::NcclLocalClique::of(whose.number, rank, ranks);
  } else {
    clique = emulator::NcclRemoteClique::to(whose.process, whose.number, ranks);
  }
  if (clique == nullptr) {
    return refuse(ncclSystemError, "Call to connect returned Connection refused");
  }
  int device = 0;
  cudaGetDevice(&device);
  ncclComm& mine = emulator::new_comm(*clique, rank, device, emulator::nccl_host());
  take_device_bytes(mine, emulator::kNcclBytes);
  clique->join(mine);
  const ncclResult_t fault = emulator::nccl_fault(rank, -1);
  if (fault != ncclSuccess && ranks > 1) mine.fail(fault, "a fault injected by a test");
  const ncclResult_t code = wait_until(mine, lock, [&] {
    emulator::NcclRemoteRank::accept_connections();
    return clique->all_joined();
  });
  if (code != ncclSuccess) {
    clique->abort(mine);
    enter(mine, State::ended);
    return refuse(code, mine.last_error);
  }
  enter(mine, State::ready);
  *comm = &mine;
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t which, ncclResult_t* now) {
  const std::lock_guard lock(emulator::stream_mutex());
  *now = living(which, "ncclCommGetAsyncError").error;
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t which) {
  {
    std::unique_lock lock(emulator::stream_mutex());
    ncclComm& comm = living(which, "ncclCommDestroy");
    enter(comm, State::finalizing);
    const ncclResult_t code = wait_until(comm, lock, [&] {
      bool done = true;
      for (const auto& [stream, ticket] : comm.tickets) {
        done &= emulator::run_until(*stream, ticket);
      }
      return done && comm.clique->finalized();
    });
    if (code != ncclSuccess) return code;
    enter(comm, State::ended);
  }
  emulator::NcclConnection::flush();  // the process may end now, but others wait for this message
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t which) {
  {
    const std::lock_guard lock(emulator::stream_mutex());
    ncclComm& comm = living(which, "ncclCommAbort");
    comm.clique->abort(comm);
    enter(comm, State::ended);
    aborted.push_back(&comm);
  }
  emulator::NcclConnection::flush();
  constexpr int kGroupAbort = 22200;  // earlier versions do not wait for the end of a group
  if (group_depth == 0 || emulator::nccl_version_code() < kGroupAbort) end_aborts();
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (group_depth == 0) return refuse(ncclInvalidUsage, "ncclGroupEnd: not in a group call.");
  if (--group_depth > 0) return ncclSuccess;
  ncclResult_t code = std::exchange(group_error, ncclSuccess);
  {
    std::unique_lock lock(emulator::stream_mutex());
    const std::vector<Launch> launches = std::exchange(group, {});
    for (const Launch& launch : launches) living(launch.comm, "ncclGroupEnd");
    if (code == ncclSuccess) code = start(launches, lock);
  }
  end_aborts();
  return code;
}

ncclResult_t ncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return call(comm, {NcclKind::all_reduce, send, recv, count, type, op}, stream);
}
ncclResult_t ncclBroadcast(const void* send, void* recv, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return call(comm, {NcclKind::broadcast, send, recv, count, type, ncclSum, root}, stream);
}
ncclResult_t ncclReduceScatter(const void* send, void* recv, size_t recv_count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return call(comm, {NcclKind::reduce_scatter, send, recv, recv_count, type, op}, stream);
}
ncclResult_t ncclAllGather(const void* send, void* recv, size_t send_count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return call(comm, {NcclKind::all_gather, send, recv, send_count, type}, stream);
}
ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return call(comm, {NcclKind::send, send, nullptr, count, type, ncclSum, peer}, stream);
}
ncclResult_t ncclRecv(void* recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return call(comm, {NcclKind::recv, nullptr, recv, count, type, ncclSum, peer}, stream);
}
