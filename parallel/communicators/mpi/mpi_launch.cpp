#include "parallel/communicators/mpi/mpi_launch.h"

#include <charconv>
#include <cstdlib>
#include <string_view>
#include <system_error>

namespace tessera {
namespace {

std::optional<int> parse_count(const char* text) {
  if (text == nullptr) return std::nullopt;
  const std::string_view view = text;
  int count = 0;
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), count);
  if (error != std::errc() || end != view.data() + view.size() || count < 1) return std::nullopt;
  return count;
}

}  // namespace

std::optional<MpiLaunch> find_mpi_launch(const EnvironmentLookup& lookup) {
  struct Signature {
    const char* variable;
    const char* count;  // the variable with the number of ranks, or null
  };
  static constexpr Signature kSignatures[] = {
      {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"},  // Open MPI's mpirun
      {"PMI_SIZE", "PMI_SIZE"},                          // Hydra, srun --mpi=pmi2
      {"PMI_RANK", nullptr},                             // other PMI-1 and PMI-2 launchers
      {"PMIX_RANK", "SLURM_STEP_NUM_TASKS"},             // PMIx: srun --mpi=pmix, prterun
  };
  for (const auto& [variable, count] : kSignatures) {
    if (lookup(variable) != nullptr) {
      return MpiLaunch{variable, count == nullptr ? std::nullopt : parse_count(lookup(count))};
    }
  }
  // srun without PMI starts processes that MPI sees as runs of one rank each. They must not train
  // side by side into one folder, so this counts as a launch, and MpiRuntime detects the mismatch.
  constexpr const char* kStep = "SLURM_STEP_NUM_TASKS";
  const std::optional<int> tasks = parse_count(lookup(kStep));
  if (tasks.value_or(1) > 1) return MpiLaunch{kStep, tasks};
  return std::nullopt;
}

bool launched_by_mpi() {
  return find_mpi_launch([](const char* name) -> const char* { return std::getenv(name); })
      .has_value();
}

}  // namespace tessera
