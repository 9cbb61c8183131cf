#include "launch/tools/supervise/supervise.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>

#include "core/error.h"
#include "launch/cli/commands.h"
#include "launch/cli/support/command_line.h"
#include "launch/support/exit_codes.h"
#include "launch/support/text/byte_size.h"
#include "parallel/communicators/mpi/mpi_launch.h"

namespace tessera {

void add_supervise_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<SuperviseOptions>();
  const auto memory = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand(
      "supervise", "Run mpirun and start it again if training fails, hangs or is preempted");
  command
      ->add_option("command", options->command,
                   "The command, after --: mpirun ... tessera train CONFIG ...")
      ->required()
      ->type_name("-- COMMAND");
  RestartOptions& restarts = options->restarts;
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
             "Failures in a row on a host of --host or --hostfile before it is left out")
      ->check(whole_number_from(1));
  add_number("--stop-timeout", options->stop_timeout,
             "Seconds in which a run that is asked to stop must save and end")
      ->check(CLI::PositiveNumber);
  add_number("--start-timeout", options->start_timeout,
             "Seconds until a start must have begun its first step; 0: any")
      ->check(CLI::NonNegativeNumber);
  add_number("--kill-grace", options->kill_grace,
             "Seconds that Open MPI leaves ranks after SIGTERM before it kills them")
      ->check(whole_number_from(1));
  command
      ->add_option("--memory", *memory,
                   "Memory of a rank, as in 80GB: layouts of fewer ranks must fit")
      ->type_name("SIZE");
  command->footer(exit_codes_text());
  command->callback([options, memory, &exit_code] {
    if (launched_by_mpi()) {
      throw CodedError("supervise starts mpirun itself: run it without mpirun or srun",
                       ExitCode::usage);
    }
    if (!memory->empty()) options->memory = static_cast<size_t>(parse_byte_size(*memory));
    exit_code = static_cast<int>(supervise(*options));
  });
}

}  // namespace tessera
