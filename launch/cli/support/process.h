#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/exit_code.h"
#include "launch/support/same_on_ranks.h"
#include "parallel/communicators/communicator.h"

namespace tessera {

/// The first call of main(): opens the standard streams (print.h), makes the failure of any write
/// an error instead of a signal, and explains bus errors (known_mappings.h).
void prepare_process();

/// Makes waiting OpenMP threads sleep after a short spin, by restarting this program with
/// GOMP_SPINCOUNT set, which GCC's OpenMP reads only when it is loaded. By default they spin for
/// milliseconds, so that a step takes many times as long if another process wants a core, as on a
/// shared machine or with more ranks than cores. Does nothing if the environment already configures
/// waiting.
void limit_openmp_spinning(char** argv);

/// The parts of a process's command line that must be the same on all ranks of a world.
using CommandLine = std::vector<NamedValue>;

/// Runs `body` on the ranks started by mpirun, or on this process alone without mpirun, and returns
/// the exit code. Rank 0 prints an error that all ranks share (SharedError), and all end in order.
/// Any other exception is printed by its rank and ends all ranks at once, whatever they wait for. A
/// PeerError leaves half a minute to the rank that knows its cause. Before anything else, refuses
/// ranks with different versions or variants of this program or different command lines.
int run_on_ranks(const CommandLine& command_line,
                 const std::function<void(Communicator& world)>& body);

/// As above, for a body that returns the exit code, which must be the same on all ranks.
int run_to_exit_code(const CommandLine& command_line,
                     const std::function<ExitCode(Communicator& world)>& body);

/// While one exists, commands of this process run in its world, whose ranks all run the same ones:
/// run_to_exit_code() and run_on_ranks() start no other, and keep an error that all ranks share
/// instead of printing it. Any other error of several ranks is thrown. Not for run_on_first_rank().
class ServedWorld {
 public:
  explicit ServedWorld(Communicator& world);
  ~ServedWorld();
  ServedWorld(const ServedWorld&) = delete;
  ServedWorld& operator=(const ServedWorld&) = delete;

  /// Null if there is none.
  static ServedWorld* current();

  int run(const std::function<ExitCode(Communicator& world)>& body);

  /// The message of the last command's error; "" if it had none.
  std::string take_error() { return std::exchange(error_, ""); }

  /// Objects that the last command loaded, and their name: a command with this name reuses them.
  std::string kept_name;
  std::shared_ptr<const void> kept;

 private:
  Communicator& world_;
  std::string error_;
};

/// An error that was already printed; the program only has to end with an exit code.
class PrintedError : public CodedError {
 public:
  explicit PrintedError(ExitCode code) : CodedError("the error was printed", code) {}
};

/// Runs `body` on rank 0 of the ranks started by mpirun while the others wait, or here without
/// mpirun. Throws what `body` throws; with several ranks, prints it once and throws PrintedError on
/// all.
void run_on_first_rank(const CommandLine& command_line, const std::function<void()>& body);

}  // namespace tessera
