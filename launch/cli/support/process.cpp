#include "launch/cli/support/process.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include "core/version.h"
#include "launch/support/files/known_mappings.h"
#include "launch/support/text/print.h"
#include "launch/support/text/terminal_text.h"
#include "parallel/communicators/exchange.h"
#include "parallel/communicators/mpi/mpi_launch.h"
#include "parallel/communicators/mpi/mpi_runtime.h"

namespace tessera {
namespace {

using Body = std::function<ExitCode(Communicator&)>;

int run_alone(const Body& body) {
  try {
    const auto world = make_self_communicator();
    return static_cast<int>(body(*world));
  } catch (const std::exception& error) {
    print_error("error: {}\n", message_of(error));
    return static_cast<int>(exit_code_of(error));
  }
}

/// How long a rank waits for another rank to report the cause of its failure. That rank first
/// aborts its pending work.
constexpr auto kPatience = std::chrono::seconds(30);

/// The first exchange of a world. Its format must never change between versions.
void check_ranks(Communicator& world, const CommandLine& command_line) {
  CommandLine values = {{"tessera's version", kVersion}};
  values.insert(values.end(), command_line.begin(), command_line.end());
  with_exit_code(ExitCode::usage, [&] {
    require_same_on_ranks(world, values, "Start all ranks with the same program and command line");
    require_same_on_ranks(world, {{"tessera's variant", program_variant()}},
                          "On hosts with different processors, start one variant on all ranks: "
                          "libexec/tessera/x86-64-v3/tessera of the installation");
  });
}

int run_under_mpi(const CommandLine& command_line, const Body& body) {
  MpiRuntime mpi;
  explain_bus_errors(fmt::format("tessera: rank {}: ", mpi.world().rank()));
  try {
    check_ranks(mpi.world(), command_line);
    return static_cast<int>(body(mpi.world()));
  } catch (const SharedError& error) {
    if (mpi.world().rank() == 0) print_error("error: {}\n", error.what());
    return static_cast<int>(error.exit_code());
  } catch (const PeerError& error) {
    // The rank that reports the cause ends this one, too, unless it died silently.
    std::this_thread::sleep_for(kPatience);
    mpi.abort(for_terminal(error.what()));
  } catch (const std::exception& error) {
    mpi.abort(for_terminal(message_of(error)), exit_code_of(error));
  }
}

ServedWorld* served_world = nullptr;

}  // namespace

void prepare_process() {
  open_standard_streams();
  // A write to a pipe that nobody reads, or beyond the limit of a file's size, is an error like
  // others, after which a run saves or a command says what it did not write.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  explain_bus_errors("error: ");
}

ServedWorld::ServedWorld(Communicator& world) : world_(world) { served_world = this; }
ServedWorld::~ServedWorld() { served_world = nullptr; }
ServedWorld* ServedWorld::current() { return served_world; }

int ServedWorld::run(const Body& body) {
  try {
    return static_cast<int>(body(world_));
  } catch (const SharedError& error) {
    error_ = error.what();
    return static_cast<int>(error.exit_code());
  } catch (const std::exception& error) {
    if (world_.size() > 1) throw;
    error_ = message_of(error);
    return static_cast<int>(exit_code_of(error));
  }
}

void limit_openmp_spinning(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  setenv("GOMP_SPINCOUNT", "1000", 1);
  // The real path: the link itself would become the process's name.
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) execv(program.c_str(), argv);
  // If the program cannot restart itself, it runs as it is and is only slower under load.
}

int run_on_ranks(const CommandLine& command_line,
                 const std::function<void(Communicator& world)>& body) {
  return run_to_exit_code(command_line, [&](Communicator& world) {
    body(world);
    return ExitCode::finished;
  });
}

int run_to_exit_code(const CommandLine& command_line, const Body& body) {
  if (served_world != nullptr) return served_world->run(body);
  try {
    return launched_by_mpi() ? run_under_mpi(command_line, body) : run_alone(body);
  } catch (const std::exception& error) {
    print_error("error: {}\n", message_of(error));
    return static_cast<int>(exit_code_of(error));
  }
}

void run_on_first_rank(const CommandLine& command_line, const std::function<void()>& body) {
  if (!launched_by_mpi()) {
    body();
    return;
  }
  const int exit_code = run_on_ranks(command_line, [&](Communicator& world) {
    // "12: the message", so that all ranks end with the same exit code
    std::string error;
    try {
      if (world.rank() == 0) body();
    } catch (const std::exception& exception) {
      error =
          fmt::format("{}:{}", static_cast<int>(exit_code_of(exception)), message_of(exception));
    }
    error = broadcast_string(world, error, 0);
    if (error.empty()) return;
    const size_t colon = error.find(':');
    throw SharedError(error.substr(colon + 1),
                      static_cast<ExitCode>(std::stoi(error.substr(0, colon))));
  });
  if (exit_code != EXIT_SUCCESS) throw PrintedError(static_cast<ExitCode>(exit_code));
}

}  // namespace tessera
