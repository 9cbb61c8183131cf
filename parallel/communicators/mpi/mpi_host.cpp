#include "parallel/communicators/mpi/mpi_host.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <system_error>

#include "core/error.h"
#include "parallel/communicators/host/peer_memory.h"
#include "parallel/communicators/mpi/mpi_call.h"

namespace tessera {
namespace {

constexpr size_t kCacheLine = 64;

template <typename T>
std::vector<T> all_gather(MPI_Comm comm, const T& mine) {
  std::vector<T> all(static_cast<size_t>(mpi_size(comm)));
  check_mpi(MPI_Allgather(&mine, sizeof(T), MPI_BYTE, all.data(), sizeof(T), MPI_BYTE, comm),
            "MPI_Allgather");
  return all;
}

bool on_all(MPI_Comm comm, bool mine) {
  int all = mine ? 1 : 0;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, comm), "MPI_Allreduce");
  return all != 0;
}

}  // namespace

MpiSharedMemory::MpiSharedMemory(MPI_Comm comm, size_t bytes_a_rank)
    : exceptions_(std::uncaught_exceptions()) {
  void* mine = nullptr;
  const int code = MPI_Win_allocate_shared(static_cast<MPI_Aint>(bytes_a_rank + kCacheLine), 1,
                                           MPI_INFO_NULL, comm, &mine, &window_);
  if (on_all(comm, code == MPI_SUCCESS)) return;
  if (code == MPI_SUCCESS) MPI_Win_free(&window_);
  check_mpi(code, "MPI_Win_allocate_shared");
  fail("another rank of the host has no memory to share");
}

MpiSharedMemory::~MpiSharedMemory() {
  if (!mpi_is_finalized() && std::uncaught_exceptions() == exceptions_) MPI_Win_free(&window_);
}

void* MpiSharedMemory::part(int rank) const {
  MPI_Aint bytes = 0;
  int unit = 0;
  void* data = nullptr;
  check_mpi(MPI_Win_shared_query(window_, rank, &bytes, &unit, &data), "MPI_Win_shared_query");
  // Each process maps it at a different page, but at the same offset within a page.
  auto space = static_cast<size_t>(bytes);
  return std::align(kCacheLine, space - kCacheLine, data, space);
}

MpiHost::MpiHost() {
  check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm_),
            "MPI_Comm_split_type");
  check_mpi(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  id_ = mpi_rank(MPI_COMM_WORLD);
  check_mpi(MPI_Bcast(&id_, 1, MPI_INT, 0, comm_), "MPI_Bcast");
  try {
    connect();
  } catch (const Error& error) {
    why_not_ = error.what();
  }
  if (on_all(comm_, !why_not_)) return;
  if (!why_not_) why_not_ = "another rank of the host may not";
  memory_ = nullptr;
  event_ = &alone_;
}

MpiHost::~MpiHost() {
  memory_ = nullptr;
  if (!mpi_is_finalized()) MPI_Comm_free(&comm_);
}

void MpiHost::connect() {
  processes_ = all_gather(comm_, getpid());
  memory_ = std::make_unique<MpiSharedMemory>(comm_, sizeof(HostEventCount));
  event_ = new (memory_->part(mpi_rank(comm_))) HostEventCount;
  allow_descendants_of(common_ancestor(processes_));
  check_copies();
}

// With separate PID namespaces of containers, another process may have a peer's PID, so check that
// the data read is what the peer has written there.
void MpiHost::check_copies() const {
  struct Probe {
    const void* address;
    uint64_t value;
  };
  const auto me = static_cast<size_t>(mpi_rank(comm_));
  const uint64_t value = 0x7e55e7a * (static_cast<uint64_t>(getpid()) + me);
  std::vector<uint64_t> places(processes_.size(), value);  // entry r is written by rank r
  const std::vector<Probe> probes = all_gather(comm_, Probe{places.data(), value});
  std::string error;
  for (size_t rank = 0; rank < probes.size() && error.empty(); ++rank) {
    const auto* theirs = static_cast<const uint64_t*>(probes[rank].address) + me;
    uint64_t seen = 0;
    int code = read_peer(processes_[rank], theirs, &seen, sizeof(seen));
    if (code == 0 && seen != probes[rank].value) code = ESRCH;
    if (code == 0) {
      code = write_peer(processes_[rank], &seen, const_cast<uint64_t*>(theirs), sizeof(seen));
    }
    if (code == 0) continue;
    error = fmt::format("process {} may not copy from and to process {}: {}", getpid(),
                        processes_[rank], std::generic_category().message(code));
  }
  check_mpi(MPI_Barrier(comm_), "MPI_Barrier");  // keep `places` alive while others access it
  require(error.empty(), "{}", error);
}

MpiHost::Members MpiHost::members_of(MPI_Comm comm, const MpiTransport& transport) {
  struct Place {
    int host, simulated, host_rank;
    int alone;  // whether it cannot share memory with the others of its host
    int world_rank;
  };
  const int world_rank = mpi_rank(MPI_COMM_WORLD);
  const int simulated = transport.simulated_host ? transport.simulated_host(world_rank) : 0;
  const int host_rank = mpi_rank(comm_);
  std::optional<std::string> why_not = why_not_;
  auto memory = std::make_unique<Memory>();

  std::vector<Place> places =
      all_gather(comm, Place{id_, simulated, host_rank, why_not_ ? 1 : 0, world_rank});
  const int me = mpi_rank(comm);
  // The host of a rank, numbered by its first rank; a rank by itself is a host.
  const auto hosts_of = [](const std::vector<Place>& all) {
    std::vector<int> hosts;
    for (const Place& place : all) {
      const auto same = [&](const Place& other) {
        return other.host == place.host && other.simulated == place.simulated;
      };
      const auto first = std::ranges::find_if(all, same);
      hosts.push_back(
          static_cast<int>(place.alone != 0 ? &place - all.data() : first - all.begin()));
    }
    return hosts;
  };
  std::vector<int> hosts = hosts_of(places);
  MPI_Comm here = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(comm, hosts[static_cast<size_t>(me)], me, &here), "MPI_Comm_split");
  check_mpi(MPI_Comm_set_errhandler(here, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  const auto num_here = static_cast<size_t>(mpi_size(here));
  if (num_here > 1) {
    try {
      memory->shared = std::make_unique<MpiSharedMemory>(
          here, sizeof(HostRankPart) + num_here * sizeof(HostSlot));
    } catch (const Error& error) {
      why_not = error.what();
    }
  }
  MPI_Comm_free(&here);
  places = all_gather(comm, Place{id_, simulated, host_rank, why_not ? 1 : 0, world_rank});
  hosts = hosts_of(places);
  HostLayout layout(hosts);

  if (memory->shared == nullptr) memory->own = std::make_unique<HostRankPart>();
  std::vector<HostMember> members;
  const std::vector<int>& ranks = layout.ranks_of(layout.host_of(me));
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (memory->own != nullptr) {
      members.push_back({getpid(), event_, memory->own.get(), nullptr, world_rank});
      break;
    }
    const Place& place = places[static_cast<size_t>(ranks[i])];
    auto* const part = static_cast<HostRankPart*>(memory->shared->part(static_cast<int>(i)));
    members.push_back({processes_[static_cast<size_t>(place.host_rank)],
                       static_cast<HostEventCount*>(memory_->part(place.host_rank)), part,
                       reinterpret_cast<HostSlot*>(part + 1), place.world_rank});
  }
  if (memory->shared != nullptr) {
    const HostMember& mine = members[static_cast<size_t>(layout.index_on_host(me))];
    new (mine.part) HostRankPart;
    std::uninitialized_default_construct_n(mine.outbox, members.size());
  }
  check_mpi(MPI_Barrier(comm), "MPI_Barrier");  // no access before all parts are initialized
  if (layout.ranks() == 1) why_not = std::nullopt;
  return {std::move(layout), std::move(members), std::move(memory), std::move(why_not)};
}

}  // namespace tessera
