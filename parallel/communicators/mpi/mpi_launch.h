#pragma once

#include <functional>
#include <optional>
#include <string>

namespace tessera {

/// How a launcher identified itself to this process.
struct MpiLaunch {
  std::string variable;      ///< the environment variable that identified it
  std::optional<int> ranks;  ///< number of processes it started, if reported
};

/// Looks up an environment variable; returns null if it is not set.
using EnvironmentLookup = std::function<const char*(const char* name)>;

/// Finds the launcher that started this process, if any: Open MPI's mpirun, the Hydra of MPICH,
/// Intel MPI and MVAPICH, or srun. A batch script's own variables (SLURM_NTASKS, ...) do not count:
/// plain `tessera` in a batch script is a run of one rank.
std::optional<MpiLaunch> find_mpi_launch(const EnvironmentLookup& lookup);

/// Whether a launcher started this process, so that MPI must be initialized. If not, the single
/// rank uses make_self_communicator() and needs no working MPI library.
bool launched_by_mpi();

}  // namespace tessera
