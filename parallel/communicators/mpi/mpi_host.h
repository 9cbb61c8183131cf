#pragma once

#include <mpi.h>
#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "parallel/communicators/host/host_bell.h"
#include "parallel/communicators/host/host_group.h"

namespace tessera {

/// Memory that the ranks of an MPI communicator share, of which each has a part of equal size.
/// Freeing it is collective, but where an exception passes.
class MpiSharedMemory {
 public:
  /// Collective; throws on all ranks if one has no such memory. The ranks have to run on one host.
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

/// The ranks of MPI_COMM_WORLD that run on this rank's host, and whether they may copy from and to
/// each other's memory.
class MpiHost {
 public:
  /// Collective over all ranks.
  MpiHost();
  ~MpiHost();
  MpiHost(const MpiHost&) = delete;
  MpiHost& operator=(const MpiHost&) = delete;

  /// This rank's.
  HostBell& bell() { return *bell_; }

  /// What the ranks of `comm` need to copy directly. Null if they are on several hosts, or may not.
  /// `why_not`, where this rank's host refuses, goes on after "because".
  struct Group {
    std::unique_ptr<HostGroup> group;
    std::unique_ptr<MpiSharedMemory> memory;
    std::string why_not;
  };
  /// Collective over `comm`.
  Group make_group(MPI_Comm comm) const;

 private:
  void connect();
  void check_copies() const;

  MPI_Comm comm_ = MPI_COMM_NULL;
  int id_ = 0;  // the same for all ranks of a host, and for no others
  std::vector<pid_t> processes_;
  std::unique_ptr<MpiSharedMemory> memory_;
  HostBell alone_;
  HostBell* bell_ = &alone_;
  std::string why_not_;  // ranks of this host may not copy directly; "" where they may
};

}  // namespace tessera
