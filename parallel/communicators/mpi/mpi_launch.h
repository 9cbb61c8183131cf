#pragma once

#include <functional>
#include <optional>
#include <string>

namespace tessera {

/// How a launcher announced itself to this process.
struct MpiLaunch {
  std::string variable;      ///< the environment variable that told
  std::optional<int> ranks;  ///< how many processes it started, where it says so
};

/// Looks a variable up in an environment; null if it is not set.
using EnvironmentLookup = std::function<const char*(const char* name)>;

/// The launcher that started this process, if one did: Open MPI's mpirun, the Hydra of MPICH, Intel
/// MPI and MVAPICH, or srun. A batch script's own variables (SLURM_NTASKS, ...) are no launcher: a
/// plain `tessera` in one is a run of one rank.
std::optional<MpiLaunch> find_mpi_launch(const EnvironmentLookup& lookup);

/// Whether a launcher started this process, so that MPI must be initialised. If not, the one rank
/// uses make_self_communicator(), and no MPI library has to work on the machine.
bool launched_by_mpi();

}  // namespace tessera
