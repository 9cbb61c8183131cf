#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "launch/train/memory/memory_plan.h"

namespace tessera {

/// What a run needs of a host's memory.
struct HostNeed {
  int ranks = 0;         ///< that the host has
  size_t bytes = 0;      ///< of all of them, by their plans
  size_t copies = 0;     ///< of these, for copies of checkpoints
  size_t available = 0;  ///< what processes can still take
};

/// Why it has no room, line by line of a rank's plan; "" if it has.
std::string why_no_host_room(const HostNeed& need, const MemoryPlan& plan);

/// The same of the first host that seems to have less memory than the plans of its ranks need, on
/// all ranks. `available` is what find_available_memory() said before any of it was taken; a host
/// that does not say what it has is taken to have enough. Not more than a warning: plans are of
/// full batches, hosts are told apart by their names, and systems can free more than they say.
/// Collective.
std::string find_host_without_room(const MemoryPlan& plan, std::optional<size_t> available,
                                   Communicator& world);

}  // namespace tessera
