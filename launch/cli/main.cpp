#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "core/version.h"
#include "launch/cli/commands.h"
#include "launch/cli/support/command_line.h"
#include "launch/cli/support/process.h"
#include "launch/cli/support/usage_error.h"
#include "launch/support/text/print.h"

namespace {

/// Prints a usage error, or the requested help, on rank 0, and returns the exit code.
int end_with(const CLI::App& app, const CLI::ParseError& error) {
  const bool no_such_command = app.get_subcommands().empty() && !app.remaining().empty();
  if (error.get_name() == "CallForHelp" && no_such_command) {
    return end_with(app, CLI::RequiredError("a command"));  // tessera trian --help
  }
  std::ostringstream help, message;
  app.exit(error, help, message);
  tessera::run_on_first_rank({{"the command line", error.what()}}, [&] {
    tessera::print_message(message.str());
    tessera::print_text(help.str());
  });
  const bool is_help = error.get_exit_code() == EXIT_SUCCESS;
  return is_help ? EXIT_SUCCESS : static_cast<int>(tessera::ExitCode::usage);
}

/// Runs the command that the arguments name.
void run(CLI::App& app, const std::vector<std::string>& arguments, int& exit_code) {
  if (arguments.empty() || arguments == std::vector<std::string>{"help"}) {
    tessera::run_on_first_rank({{"the command", "none"}}, [&] {
      tessera::print_out(
          "Usage: tessera COMMAND ...\n\n{}\ntessera COMMAND --help describes a command\n",
          tessera::command_list(app));
    });
    return;
  }
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& error) {
    exit_code = end_with(app, error);
  }
}

}  // namespace

int main(int argc, char** argv) {
  tessera::prepare_process();
  tessera::limit_openmp_spinning(argv);
  CLI::App app("Tessera trains transformers on many ranks.", "tessera");
  app.set_version_flag("--version",
                       fmt::format("{} ({})", tessera::kVersion, tessera::program_variant()));
  app.require_subcommand(1);
  tessera::name_number_of_ranks(argc, argv);
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  if (arguments.size() > 1 && arguments.front() == "help") {  // tessera help train
    arguments.erase(arguments.begin());
    arguments.emplace_back("--help");
  }
  app.failure_message([&arguments](const CLI::App* failed, const CLI::Error& error) {
    return tessera::usage_error(*failed, error, arguments);
  });

  int exit_code = EXIT_SUCCESS;
  tessera::add_commands(app, exit_code);
  try {
    run(app, arguments, exit_code);
  } catch (const tessera::PrintedError& error) {
    return static_cast<int>(error.exit_code());
  } catch (const std::exception& error) {
    tessera::print_error("error: {}\n", tessera::message_of(error));
    return static_cast<int>(tessera::exit_code_of(error));
  }
  return exit_code;
}
