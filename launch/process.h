#pragma once

#include <functional>

#include "core/error.h"
#include "parallel/communicator.h"

namespace tessera {

/// Runs `body` on the ranks that mpirun started, or on this process alone if nothing started it,
/// and returns the exit code. An error that all ranks share (SharedError) is printed by rank 0 and
/// all end in order; any other exception is printed by the rank that it happened on, and ends all
/// ranks at once, whatever they wait for.
int run_on_ranks(const std::function<void(Communicator& world)>& body);

/// An error that has been printed already: nothing is left to do but to end with an exit code.
class PrintedError : public Error {
 public:
  PrintedError() : Error("the error was printed") {}
};

/// For what one process does: runs `body` on rank 0 of the ranks that mpirun started while the
/// others wait, or here if nothing started this process. Throws what `body` throws; among ranks,
/// prints it once and throws PrintedError on all.
void run_on_first_rank(const std::function<void()>& body);

}  // namespace tessera
