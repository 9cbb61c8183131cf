#pragma once

#include <mpi.h>
#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "parallel/communicators/host/host_event_count.h"
#include "parallel/communicators/host/host_group.h"
#include "parallel/communicators/mpi/mpi_runtime.h"

namespace tessera {

/// Memory shared by the ranks of an MPI communicator, with one part of equal size per rank. Freeing
/// it is collective, except while an exception propagates.
class MpiSharedMemory {
 public:
  /// Collective. Throws on all ranks if one cannot allocate. The ranks must run on one host.
  MpiSharedMemory(MPI_Comm comm, size_t bytes_a_rank);
  ~MpiSharedMemory();
  MpiSharedMemory(const MpiSharedMemory&) = delete;
  MpiSharedMemory& operator=(const MpiSharedMemory&) = delete;

  /// A rank's part, aligned to a cache line.
  void* part(int rank) const;

 private:
  MPI_Win window_ = MPI_WIN_NULL;
  int exceptions_;
};

/// The ranks of MPI_COMM_WORLD on this rank's host, and whether they may copy from and to each
/// other's memory.
class MpiHost {
 public:
  /// Collective over all ranks.
  MpiHost();
  ~MpiHost();
  MpiHost(const MpiHost&) = delete;
  MpiHost& operator=(const MpiHost&) = delete;

  /// This rank's event count.
  HostEventCount& event() { return *event_; }

  /// The parts of the members, in shared memory or, for a rank by itself, its own.
  struct Memory {
    std::unique_ptr<MpiSharedMemory> shared;
    std::unique_ptr<HostRankPart> own;
  };
  /// How the ranks of `comm` are placed, and those of this rank's host. Ranks that may not copy
  /// from each other's memory count as on hosts of their own; `why_not` then completes a sentence
  /// after "because" on the ranks of such a host.
  struct Members {
    HostLayout layout;
    std::vector<HostMember> members;
    std::unique_ptr<Memory> memory;
    std::optional<std::string> why_not;
  };
  /// Collective over `comm`.
  Members members_of(MPI_Comm comm, const MpiTransport& transport);

 private:
  void connect();
  void check_copies() const;

  MPI_Comm comm_ = MPI_COMM_NULL;
  int id_ = 0;  // identifies the host
  std::vector<pid_t> processes_;
  std::unique_ptr<MpiSharedMemory> memory_;
  HostEventCount alone_;
  HostEventCount* event_ = &alone_;
  std::optional<std::string> why_not_;  // why ranks of this host may not copy directly
};

}  // namespace tessera
