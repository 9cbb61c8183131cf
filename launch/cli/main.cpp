#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <sstream>

#include "core/version.h"
#include "launch/cli/commands.h"
#include "launch/cli/support/command_line.h"
#include "launch/cli/support/process.h"
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
void run(CLI::App& app, int argc, char** argv, int& exit_code) {
  if (argc == 1) {
    tessera::run_on_first_rank({{"the command", "none"}}, [&] {
      tessera::print_out(
          "Usage: tessera COMMAND ...\n\n{}\ntessera COMMAND --help describes a command\n",
          tessera::command_list(app));
    });
    return;
  }
  try {
    tessera::name_number_of_ranks(argc, argv);
    app.parse(argc, argv);
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
  tessera::add_run_command(app, exit_code);
  tessera::add_supervise_command(app, exit_code);
  tessera::add_config_command(app);
  tessera::add_plan_command(app, exit_code);
  tessera::add_design_command(app, exit_code);
  tessera::add_prove_command(app, exit_code);
  tessera::add_mask_command(app);
  tessera::add_completion_command(app);
  tessera::add_man_command(app);
  try {
    run(app, argc, argv, exit_code);
  } catch (const tessera::PrintedError& error) {
    return static_cast<int>(error.exit_code());
  } catch (const std::exception& error) {
    tessera::print_error("error: {}\n", tessera::message_of(error));
    return static_cast<int>(tessera::exit_code_of(error));
  }
  return exit_code;
}
