// NCCL's functions. Communicators are nonblocking: slow operations advance with each poll
// (ncclCommGetAsyncError), and take at least two polls.

#include <nccl.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <thread>

#include "tests/emulator/deadlock.h"
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

/// Aborts wait until no graph contains a call of the communicator. NCCL's own abort would wait
/// forever.
void wait_for_graphs() {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  for (const ncclComm* comm : aborted) {
    while (comm->graphs.use_count() > 1) {
      if (std::chrono::steady_clock::now() > deadline) {
        emulator::nccl_fail("ncclCommAbort of " + comm->name() +
                            " waits for a graph that contains its calls");
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  aborted.clear();
}

ncclResult_t refuse(ncclResult_t code, const std::string& why) {
  last_error_of_thread = why;
  return code;
}

void enter(ncclComm& comm, State state) {
  comm.state = state;
  comm.polls = 0;
  comm.clique->state_changed(comm);
  emulator::something_happens();
}

ncclComm& living(ncclComm_t comm, const char* function) {
  if (comm == nullptr) emulator::nccl_fail(std::string(function) + " without a communicator");
  if (comm->state == State::ended) {
    emulator::nccl_fail(std::string(function) + " on " + comm->name() + ", which has ended");
  }
  return *comm;
}

/// Advances operations in the background.
void go_on(ncclComm& comm) {
  constexpr int kQuestions = 2;
  NcclClique& clique = *comm.clique;
  const bool enough = ++comm.polls >= kQuestions;
  switch (comm.state) {
    case State::connecting:
      emulator::NcclRemoteRank::accept_connections();
      if (clique.all_joined() && enough) enter(comm, State::ready);
      return;
    case State::starting: {
      const auto& [call, stream] = *comm.first_of_kind;
      if (!clique.connected(comm.rank, call) || !enough) return;
      clique.enqueue(comm, call, *stream);
      comm.first_of_kind.reset();
      return enter(comm, State::ready);
    }
    case State::finalizing: {
      bool done = true;
      for (const auto& [stream, ticket] : comm.tickets)
        done &= emulator::run_until(*stream, ticket);
      if (done && clique.finalized() && enough) enter(comm, State::finalized);
      return;
    }
    default:
      return;
  }
}

ncclResult_t call(ncclComm_t which, const NcclCall& what, cudaStream_t stream) {
  const std::lock_guard lock(emulator::stream_mutex());
  ncclComm& comm = living(which, describe(what).c_str());
  NcclClique& clique = *comm.clique;
  if (comm.state >= State::finalizing) {
    emulator::nccl_fail(describe(what) + " on " + comm.name() + ", which is finalized");
  }
  emulator::check_call(comm, what, stream);
  if (group_depth > 0) return refuse(ncclInvalidUsage, "only aborts are emulated within a group");
  if (what.op != ncclSum && what.op != ncclMax) {
    return refuse(ncclInvalidArgument, describe(what) + ": only sums and maxima are emulated");
  }
  if (what.root < 0 || what.root >= clique.size() ||
      (what.is_message() && what.root == comm.rank)) {
    return refuse(ncclInvalidArgument, describe(what) + " on " + comm.name());
  }
  if (comm.error != ncclSuccess) return comm.error;
  if (comm.state != State::ready) {
    comm.last_error =
        "Attempt to use communicator before the previous operation returned ncclSuccess";
    return ncclInvalidArgument;
  }
  const ncclResult_t fault = emulator::nccl_fault(comm.rank, comm.calls++);
  if (fault != ncclSuccess && clique.size() > 1) {
    comm.fail(fault, "a fault injected by a test");
    return ncclInProgress;
  }
  if (what.count == 0) return ncclSuccess;
  if (!clique.connected(comm.rank, what)) {
    clique.connect(comm.rank, what);
    comm.first_of_kind = {what, stream};
    enter(comm, State::starting);
    emulator::wake_waiting_hosts();
    return ncclInProgress;
  }
  clique.enqueue(comm, what, *stream);
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
  static uint64_t made = 0;
  const Id mine{getpid(), ++made};
  std::memset(id, 0, sizeof(*id));
  std::memcpy(id->internal, &mine, sizeof(mine));
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  const std::lock_guard lock(emulator::stream_mutex());
  *comm = nullptr;
  Id whose;
  std::memcpy(&whose, id.internal, sizeof(whose));
  if (config == nullptr || config->magic != 0xcafebeefu || config->size != sizeof(*config)) {
    return refuse(ncclInvalidArgument, "ncclConfig_t is not set by NCCL_CONFIG_INITIALIZER");
  }
  if (config->blocking != 0) {
    return refuse(ncclInvalidUsage, "only nonblocking communicators are emulated");
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
  ncclComm& mine = emulator::new_comm(*clique, rank, device);
  clique->join(mine);
  const ncclResult_t fault = emulator::nccl_fault(rank, -1);
  if (fault != ncclSuccess && ranks > 1) mine.fail(fault, "a fault injected by a test");
  *comm = &mine;
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t which, ncclResult_t* now) {
  const std::lock_guard lock(emulator::stream_mutex());
  ncclComm& comm = living(which, "ncclCommGetAsyncError");
  if (comm.error == ncclSuccess) go_on(comm);
  const bool idle = comm.state == State::ready || comm.state == State::finalized;
  *now = comm.error != ncclSuccess ? comm.error : idle ? ncclSuccess : ncclInProgress;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t which) {
  const std::lock_guard lock(emulator::stream_mutex());
  ncclComm& comm = living(which, "ncclCommFinalize");
  if (comm.error != ncclSuccess) return comm.error;
  if (comm.state != State::ready) {
    emulator::nccl_fail("ncclCommFinalize on " + comm.name() + ", which is not ready");
  }
  enter(comm, State::finalizing);
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t which) {
  {
    const std::lock_guard lock(emulator::stream_mutex());
    ncclComm& comm = living(which, "ncclCommDestroy");
    if (comm.state != State::finalized) {
      emulator::nccl_fail("ncclCommDestroy on " + comm.name() + ", which is not finalized");
    }
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
  if (group_depth == 0) wait_for_graphs();
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (group_depth == 0) return refuse(ncclInvalidUsage, "ncclGroupEnd: not in a group call.");
  if (--group_depth == 0) wait_for_graphs();
  return ncclSuccess;
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
