#include "tests/emulator/nccl/clique.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/emulator/deadlock.h"
#include "tests/emulator/nccl/remote_rank.h"

namespace emulator {

void nccl_fail(const std::string& what) {
  std::fprintf(stderr, "emulated NCCL: %s\n", what.c_str());
  std::abort();
}

ncclComm& new_comm(NcclClique& clique, int rank, int device, uint64_t host) {
  // All communicators ever created, so that the use of one that has ended can be reported.
  static auto* all = new std::vector<std::unique_ptr<ncclComm>>;
  ncclComm& comm = *all->emplace_back(new ncclComm);
  comm.clique = &clique;
  comm.rank = rank;
  comm.device = device;
  comm.host = host;
  return comm;
}

uint64_t nccl_host() {
  static pid_t process = 0;  // a fork is another process
  static uint64_t hash = 0;
  if (std::exchange(process, ::getpid()) != ::getpid()) {
    char name[256] = {};
    ::gethostname(name, sizeof(name) - 1);
    const char* id = std::getenv("NCCL_HOSTID");
    hash = std::hash<std::string_view>()(id == nullptr ? name : id);
  }
  return hash;
}

NcclClique::NcclClique(uint64_t number, int size) : number_(number), size_(size) {
  const auto is_on = [](const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr || value != std::string_view("0");
  };
  connects_at_runtime_ = is_on("NCCL_RUNTIME_CONNECT");
  registers_in_graphs_ = is_on("NCCL_GRAPH_REGISTER");
}

bool NcclClique::connected(int rank, const NcclCall& call) const {
  return (!connects_at_runtime_ && !call.is_message()) || has_links(rank, call);
}

void NcclClique::enqueue(ncclComm& comm, std::vector<NcclCall> calls, Stream& stream) {
  for (NcclCall& call : calls) {
    call.captured = stream.capture.active();
    if (call.captured && registers_in_graphs_) {
      nccl_fail(describe(call) + " on " + comm.name() +
                ", registers buffers that are not from ncclMemAlloc: NCCL_GRAPH_REGISTER is not 0");
    }
  }
  enqueue_node(stream, [this, &comm, calls = std::move(calls), held = comm.graphs](Stream& on) {
    if (comm.has_ended()) {
      nccl_fail(describe(calls[0]) + " is launched on " + comm.name() + ", which has ended");
    }
    const uint64_t ticket = on.enqueued + 1;
    comm.tickets[&on] = ticket;
    const auto kernel = launch_nccl_kernel(comm, on, ticket);
    std::vector<Work> works;
    for (const NcclCall& call : calls) works.push_back(post(comm, call, kernel));
    enqueue_work(on, [&comm, kernel, works = std::move(works)] {
      const auto all_work = [&] {
        bool all = true;
        for (const Work& work : works) all = work() && all;
        return all;
      };
      const bool done = comm.has_ended() || (may_run(kernel) && all_work());
      if (done) end_nccl_kernel(*kernel);
      return done;
    });
    wake_waiting_hosts();
  });
}

}  // namespace emulator

std::string ncclComm::name() const {
  return "rank " + std::to_string(rank) + " of communicator " + std::to_string(clique->number()) +
         " (" + std::to_string(clique->size()) + (clique->size() == 1 ? " rank)" : " ranks)");
}

void ncclComm::fail(ncclResult_t code, const std::string& why) {
  if (error != ncclSuccess) return;
  error = code;
  last_error = why;
  if (remote != nullptr) remote->send_status();
  emulator::something_happens();
}
