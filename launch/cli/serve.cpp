#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <vector>

#include "core/error.h"
#include "launch/cli/commands.h"
#include "launch/cli/support/command_line.h"
#include "launch/cli/support/input_line.h"
#include "launch/cli/support/process.h"
#include "launch/cli/support/usage_error.h"
#include "launch/support/files/file_descriptor.h"
#include "launch/support/files/mapped_file.h"
#include "launch/support/text/json.h"
#include "launch/support/text/print.h"
#include "launch/support/text/utf8.h"

namespace tessera {
namespace {

/// Takes what is written to stdout during its lifetime.
class CapturedOutput {
 public:
  CapturedOutput() : file_(::memfd_create("output", MFD_CLOEXEC)), stdout_(::dup(STDOUT_FILENO)) {
    const bool is_taken =
        file_.valid() && stdout_.valid() && ::dup2(file_.get(), STDOUT_FILENO) >= 0;
    require(is_taken, "serve: the output of a command cannot be taken: {}", system_message(errno));
  }
  ~CapturedOutput() { restore(); }
  CapturedOutput(const CapturedOutput&) = delete;
  CapturedOutput& operator=(const CapturedOutput&) = delete;

  std::string take() {
    restore();
    return std::string(MappedFile(fmt::format("/proc/self/fd/{}", file_.get())).text());
  }

 private:
  void restore() { ::dup2(stdout_.get(), STDOUT_FILENO); }

  FileDescriptor file_, stdout_;
};

std::vector<std::string> arguments_of(const std::string& line) {
  const Json request = parse_json(line, "the request");
  require(request.is_array(), "a request is a list of a command and its arguments, but is {}",
          json_type(request));
  std::vector<std::string> arguments;
  for (const Json& argument : request) {
    require(argument.is_string(), "the arguments of a command are texts, but one is {}",
            json_type(argument));
    arguments.push_back(argument.get<std::string>());
  }
  return arguments;
}

/// Runs a command. Collective, unless it throws on all ranks.
int run_command(const std::vector<std::string>& arguments, std::string& error) {
  int exit_code = EXIT_SUCCESS;
  CLI::App app("", "tessera");
  app.require_subcommand(1);
  add_model_commands(app, exit_code);
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    print_text(app.help());
  } catch (const CLI::ParseError& wrong) {
    error = usage_error(app, wrong, arguments);
    return static_cast<int>(ExitCode::usage);
  }
  return exit_code;
}

std::string answer_to(const std::string& line, ServedWorld& served) {
  int exit_code = static_cast<int>(ExitCode::usage);
  std::string error;
  CapturedOutput output;
  std::vector<std::string> arguments;
  try {
    arguments = arguments_of(line);
  } catch (const Error& wrong) {
    error = wrong.what();
  }
  if (error.empty()) exit_code = run_command(arguments, error);
  if (error.empty()) error = served.take_error();
  return to_text(Json{{"exit_code", exit_code},
                      {"output", valid_utf8(output.take())},
                      {"error", valid_utf8(error)}});
}

void serve(Communicator& world) {
  ServedWorld served(world);
  const auto read = [](std::string& line) { return read_input_line("serve", line); };
  while (const auto line = next_input_line(read, world)) {
    const std::string answer = answer_to(*line, served);
    if (world.rank() != 0) continue;
    write_to_stdout(answer + "\n");
  }
}

}  // namespace

void add_serve_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "serve",
      "Run commands that are given as lines of JSON, and keep their model loaded between them");
  command->footer(
      "Each line of standard input is a list of a command that predicts with a model (eval, "
      "generate, attention, fill-mask, embed, classify) and its arguments, as in\n\n"
      "  [\"generate\", \"runs/a\", \"--prompt\", \"Once\"]\n\n"
      "and is answered by a line of JSON with exit_code, output and error. The Python "
      "module's tessera.Model uses it.");
  command->callback(
      [command, &exit_code] { exit_code = run_on_ranks(command_line_of(*command), serve); });
}

}  // namespace tessera
