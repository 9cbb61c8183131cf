#include "launch/tools/supervise/supervise.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "launch/cli/commands.h"
#include "launch/cli/support/command_line.h"
#include "launch/support/command_text.h"
#include "launch/support/exit_codes.h"
#include "launch/support/text/byte_size.h"
#include "launch/support/text/printable_text.h"
#include "launch/tools/supervise/launch_command.h"
#include "launch/tools/supervise/supervised_process.h"
#include "launch/train/start/stop_signal.h"
#include "parallel/communicators/mpi/mpi_launch.h"

namespace tessera {
namespace {

/// The launch that both commands start.
struct Launch {
  LaunchRequest request;
  SuperviseOptions options;
  std::string first, memory;  ///< word of the command
};

/// Variables that change what a rank computes, or how fast, and the one that supervise() sets.
std::vector<std::string> variables_of_ranks(bool is_supervised) {
  std::vector<std::string> names;
  if (is_supervised) names.emplace_back(kLauncherVariable);
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string name(*entry, std::strcspn(*entry, "="));
    const bool is_used = name.starts_with("OMP_") || name.starts_with("TESSERA_");
    if ((is_used || name == "LD_LIBRARY_PATH") && name != kLauncherVariable) names.push_back(name);
  }
  return names;
}

/// The whole command to start, of the words after the options.
std::vector<std::string> words_to_start(Launch& launch, const CLI::App& command) {
  if (launched_by_mpi()) {
    throw CodedError(command.get_name() + " starts mpirun itself: run it without mpirun or srun",
                     ExitCode::usage);
  }
  std::vector<std::string> words = command.remaining();
  if (!words.empty() && words.front() == "--") words.erase(words.begin());
  words.insert(words.begin(), launch.first);
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto commands = command.get_parent()->get_subcommands(
      [&](const CLI::App* other) { return other->get_name() == launch.first; });
  const bool is_command = !commands.empty();
  if (!is_command) {
    for (const char* option : {"--np", "--hosts", "--mpirun"}) {
      if (command.count(option) == 0) continue;
      throw CodedError(
          fmt::format("{} starts ranks of a tessera command, but {} is none: give {} to the "
                      "launcher after --, or leave it out",
                      option, printable(launch.first), option),
          ExitCode::usage);
    }
    return words;
  }
  launch.request.command = words;
  launch.request.environment = variables_of_ranks(/*is_supervised=*/launch.first == "train");
  return mpirun_command(launch.request, error ? "tessera" : program.string(), ::geteuid() == 0);
}

CLI::App* add_launch(CLI::App& app, const char* name, const char* description,
                     const std::shared_ptr<Launch>& launch) {
  CLI::App* command = app.add_subcommand(name, description);
  command->prefix_command();
  command->add_option("-n,--np", launch->request.ranks, "Ranks, also as -np N")
      ->check(whole_number_from(1));
  command
      ->add_option("--hosts", launch->request.hosts,
                   "Hosts and their ranks, as in node1:4,node2:4; otherwise this host, or those of "
                   "the Slurm job")
      ->type_name("HOST:RANKS,...");
  command
      ->add_option(
          "--mpirun", launch->request.mpirun,
          "Open MPI's launcher with further options, as in \"mpirun --mca btl_tcp_if_include "
          "eth0\"")
      ->type_name("COMMAND")
      ->capture_default_str();
  SuperviseOptions& options = launch->options;
  command
      ->add_option("--stop-timeout", options.stop_timeout,
                   "Seconds in which a run that is asked to stop must save and end; 0: any")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command
      ->add_option("--start-timeout", options.start_timeout,
                   "Seconds until a start must have begun its first step; 0: any")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command
      ->add_option("--kill-grace", options.kill_grace,
                   "Seconds that Open MPI leaves ranks after SIGTERM before it kills them")
      ->check(whole_number_from(1))
      ->capture_default_str();
  command
      ->add_option("COMMAND", launch->first,
                   "The command and its options, as in train CONFIG or, after --, the launcher's: "
                   "mpirun ... tessera train CONFIG")
      ->required()
      ->type_name("...");
  command->footer(exit_codes_text());
  return command;
}

}  // namespace

void name_number_of_ranks(int argc, char** argv) {
  static char name[] = "--np";
  const std::string command = argc > 1 ? argv[1] : "";
  if (command != "run" && command != "supervise") return;
  for (int i = 2; i < argc && std::strcmp(argv[i], "--") != 0; ++i) {
    if (std::strcmp(argv[i], "-np") == 0) argv[i] = name;
  }
}

void add_run_command(CLI::App& app, int& exit_code) {
  const auto launch = std::make_shared<Launch>();
  launch->options.restarts.restarts = false;
  launch->options.kill_grace = 1;
  CLI::App* command =
      add_launch(app, "run", "Run a command on several ranks, so that Ctrl-C saves", launch);
  command->callback([command, launch, &exit_code] {
    launch->options.command = words_to_start(*launch, *command);
    if (launch->first != "train" && !launch->request.command.empty()) {
      run_instead(launch->options.command);
    }
    launch->options.resume = command_text(::getpid());
    exit_code = static_cast<int>(supervise(launch->options));
  });
}

void add_supervise_command(CLI::App& app, int& exit_code) {
  const auto launch = std::make_shared<Launch>();
  CLI::App* command =
      add_launch(app, "supervise",
                 "Run a training on several ranks, and start it again if it fails, hangs or is "
                 "preempted",
                 launch);
  RestartOptions& restarts = launch->options.restarts;
  const auto add_number = [&](const char* name, auto& value, const char* meaning) {
    return command->add_option(name, value, meaning)->capture_default_str();
  };
  add_number("--max-restarts-without-progress", restarts.most_without_progress,
             "Restarts in a row without a newer checkpoint before it ends")
      ->check(whole_number_from(0));
  add_number("--delay", restarts.delay,
             "Seconds before a restart; doubles with each one without a newer checkpoint")
      ->check(CLI::NonNegativeNumber);
  add_number("--max-delay", restarts.longest_delay, "The most seconds before a restart")
      ->check(CLI::NonNegativeNumber);
  add_number("--max-host-failures", restarts.most_host_failures,
             "Failures in a row on a host of --hosts or a hostfile before it is left out")
      ->check(whole_number_from(1));
  command
      ->add_option("--memory", launch->memory,
                   "Memory of a rank, as in 80GB: layouts of fewer ranks must fit")
      ->type_name("SIZE");
  command->callback([command, launch, &exit_code] {
    SuperviseOptions& options = launch->options;
    options.command = words_to_start(*launch, *command);
    options.resume = command_text(::getpid());
    if (!launch->memory.empty())
      options.memory = static_cast<size_t>(parse_byte_size(launch->memory));
    exit_code = static_cast<int>(supervise(options));
  });
}

}  // namespace tessera
