#pragma once

#include <functional>

#include "parallel/communicator.h"

namespace tessera {

/// Runs `body` on the ranks that mpirun started, or on this process alone if nothing started it,
/// and returns the exit code. An error that all ranks share (SharedError) is printed by rank 0 and
/// all end in order; any other exception is printed by the rank that it happened on, and ends all
/// ranks at once, whatever they wait for.
int run_on_ranks(const std::function<void(Communicator& world)>& body);

}  // namespace tessera
