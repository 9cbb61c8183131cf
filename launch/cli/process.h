#pragma once

#include <functional>
#include <vector>

#include "core/error.h"
#include "launch/support/same_on_ranks.h"
#include "parallel/communicators/communicator.h"

namespace tessera {

/// Makes OpenMP's threads sleep after a short spin when they wait for one another, by starting this
/// program anew with GOMP_SPINCOUNT set, which GCC's OpenMP reads only when it is loaded. Its own
/// default is to spin for milliseconds: where another process wants a core, as on a shared machine
/// or with more ranks than cores, a step then takes many times as long. Does nothing if the
/// environment already says how to wait.
void limit_openmp_spinning(char** argv);

/// What a process was asked to do, as far as it must be the same on all ranks of a world.
using CommandLine = std::vector<NamedValue>;

/// Runs `body` on the ranks that mpirun started, or on this process alone if nothing started it,
/// and returns the exit code. An error that all ranks share (SharedError) is printed by rank 0 and
/// all end in order; any other exception is printed by the rank that it happened on, and ends all
/// ranks at once, whatever they wait for. A PeerError leaves half a minute to the rank that has
/// its cause to tell. Ranks of different versions of this program, or with different command lines,
/// are refused before anything else.
int run_on_ranks(const CommandLine& command_line,
                 const std::function<void(Communicator& world)>& body);

/// An error that has been printed already: nothing is left to do but to end with an exit code.
class PrintedError : public Error {
 public:
  PrintedError() : Error("the error was printed") {}
};

/// For what one process does: runs `body` on rank 0 of the ranks that mpirun started while the
/// others wait, or here if nothing started this process. Throws what `body` throws; among ranks,
/// prints it once and throws PrintedError on all.
void run_on_first_rank(const CommandLine& command_line, const std::function<void()>& body);

}  // namespace tessera
