#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>

#include "core/version.h"
#include "launch/cli/commands.h"
#include "launch/cli/support/command_line.h"
#include "launch/cli/support/process.h"
#include "launch/support/files/known_mappings.h"
#include "launch/support/text/terminal_text.h"

namespace {

/// Prints a usage error, or the requested help, on rank 0, and returns the exit code.
int end_with(const CLI::App& app, const CLI::ParseError& error) {
  const bool no_such_command = app.get_subcommands().empty() && !app.remaining().empty();
  if (error.get_name() == "CallForHelp" && no_such_command) {
    return end_with(app, CLI::RequiredError("a command"));  // tessera trian --help
  }
  try {
    tessera::run_on_first_rank({{"the command line", error.what()}}, [&] { app.exit(error); });
    const bool is_help = error.get_exit_code() == EXIT_SUCCESS;
    return is_help ? EXIT_SUCCESS : static_cast<int>(tessera::ExitCode::usage);
  } catch (const tessera::PrintedError& printed) {  // other ranks have a different command line
    return static_cast<int>(printed.exit_code());
  }
}

void print_commands(const CLI::App& app) {
  fmt::print("Usage: tessera COMMAND ...\n\n{}\ntessera COMMAND --help describes a command\n",
             tessera::command_list(app));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  tessera::limit_openmp_spinning(argv);
  tessera::explain_bus_errors("error: ");
  CLI::App app("Tessera trains transformers on many ranks.", "tessera");
  app.set_version_flag("--version",
                       fmt::format("{} ({})", tessera::kVersion, tessera::program_variant()));
  app.require_subcommand(1);
  app.failure_message(tessera::usage_error);

  int exit_code = EXIT_SUCCESS;
  tessera::add_train_command(app, exit_code);
  tessera::add_eval_command(app, exit_code);
  tessera::add_generate_command(app, exit_code);
  tessera::add_chat_command(app, exit_code);
  tessera::add_attention_command(app, exit_code);
  tessera::add_fill_mask_command(app, exit_code);
  tessera::add_embed_command(app, exit_code);
  tessera::add_classify_command(app, exit_code);
  tessera::add_prepare_command(app);
  tessera::add_tokenizer_command(app);
  tessera::add_export_command(app);
  tessera::add_import_command(app);
  tessera::add_inspect_command(app);
  tessera::add_verify_command(app);
  tessera::add_status_command(app);
  tessera::add_report_command(app);
  tessera::add_runs_command(app);
  tessera::add_replay_command(app, exit_code);
  tessera::add_supervise_command(app, exit_code);
  tessera::add_config_command(app);
  tessera::add_plan_command(app, exit_code);
  tessera::add_design_command(app, exit_code);
  tessera::add_prove_command(app, exit_code);
  tessera::add_mask_command(app);
  tessera::add_completion_command(app);
  tessera::add_man_command(app);
  try {
    if (argc == 1) {
      tessera::run_on_first_rank({{"the command", "none"}}, [&] { print_commands(app); });
      return EXIT_SUCCESS;
    }
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return end_with(app, error);
  } catch (const tessera::PrintedError& error) {
    return static_cast<int>(error.exit_code());
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", tessera::for_terminal(tessera::message_of(error)));
    return static_cast<int>(tessera::exit_code_of(error));
  }
  return exit_code;
}
