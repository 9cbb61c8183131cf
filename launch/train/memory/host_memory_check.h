#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "launch/train/memory/memory_plan.h"

namespace tessera {

/// The memory that a run needs on one host.
struct HostNeed {
  int ranks = 0;         ///< ranks on the host
  size_t bytes = 0;      ///< planned bytes of all these ranks
  size_t copies = 0;     ///< part of `bytes` for copies of checkpoints
  size_t available = 0;  ///< bytes that processes can still allocate
};

/// Explains, with the lines of one rank's plan, why the host's memory does not suffice; nullopt
/// if it does.
std::optional<std::string> host_memory_shortage(const HostNeed& need, const MemoryPlan& plan);

/// Returns host_memory_shortage() for the first host whose memory seems too small for its ranks'
/// plans, on all ranks. `available` is the result of find_available_memory() before any allocation;
/// a host without one is assumed to have enough. Use it for a warning only: plans assume full
/// batches, hosts are identified by name, and a system can free more than it reports. Collective.
std::optional<std::string> find_host_memory_shortage(const MemoryPlan& plan,
                                                     std::optional<size_t> available,
                                                     Communicator& world);

}  // namespace tessera
