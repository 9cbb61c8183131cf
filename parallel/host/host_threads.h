#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "parallel/communicators/communicator.h"

namespace tessera {

/// The CPUs that a rank may use. A CPU is what the system calls one: a hardware thread if cores
/// have several.
struct RankCpus {
  std::string host;
  std::set<int> bound;          ///< CPUs that this rank may run on
  std::set<int> unbound;        ///< CPUs of the launching process, before binding
  std::optional<double> quota;  ///< the container's CPU limit, shared by the host's ranks
  std::optional<int> user;      ///< OMP_NUM_THREADS
};

/// The number of threads of a rank, and the reason in a sentence for the start-up summary:
///
///     2 threads (8 CPUs of this host shared by 4 ranks)
///     1 thread (bound to 1 of 64 CPUs by the launcher; mpirun --bind-to none would give 32)
struct HostThreads {
  int threads = 1;
  std::string summary;
};

/// Chooses the number of threads of `rank` from all ranks' CPUs. Each CPU is divided among the
/// ranks of the host that may run on it. A rank gets the sum of its shares, at most its share of
/// the container's quota, rounded down, and at least 1. OMP_NUM_THREADS overrides this.
HostThreads choose_host_threads(const std::vector<RankCpus>& ranks, int rank);

/// The CPUs of the calling thread. Throws if OMP_NUM_THREADS is not a positive number.
RankCpus find_rank_cpus();

/// Conversion of RankCpus to text and back, to send it between ranks.
std::string to_string(const RankCpus& cpus);
RankCpus parse_rank_cpus(const std::string& text);

/// Chooses this rank's number of threads and sets it in OpenMP. Collective over all ranks.
HostThreads apply_host_threads(Communicator& world);

}  // namespace tessera
