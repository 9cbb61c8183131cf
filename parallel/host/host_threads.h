#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "parallel/communicators/communicator.h"

namespace tessera {

/// What a rank knows of the CPUs that it may use. CPUs are those of the system: hardware threads
/// where a core has several.
struct RankCpus {
  std::string host;
  std::set<int> bound;          ///< the CPUs that this rank may run on
  std::set<int> unbound;        ///< those of the process that started it, before any binding
  std::optional<double> quota;  ///< the container's limit in CPUs' time, shared by the host's ranks
  std::optional<int> user;      ///< OMP_NUM_THREADS
};

/// How many threads a rank should use, and why, in a sentence for the start-up summary:
///
///     2 threads (8 CPUs of this host shared by 4 ranks)
///     1 thread (bound to 1 of 64 CPUs by the launcher; mpirun --bind-to none would give 32)
struct HostThreads {
  int threads = 1;
  std::string summary;
};

/// The number of threads for `rank`, from what every rank said. A CPU is shared by the ranks of the
/// host that may run on it; a rank gets its shares' sum, at most its share of the container's
/// quota, rounded down, and at least 1. OMP_NUM_THREADS overrides all that.
HostThreads choose_host_threads(const std::vector<RankCpus>& ranks, int rank);

/// What the system says of the calling thread's CPUs. Throws if OMP_NUM_THREADS is not a positive
/// number.
RankCpus find_rank_cpus();

/// RankCpus as a line of text, to send it, and back.
std::string to_string(const RankCpus& cpus);
RankCpus parse_rank_cpus(const std::string& text);

/// Chooses this rank's number of threads and tells OpenMP. Collective over all ranks.
HostThreads apply_host_threads(Communicator& world);

}  // namespace tessera
