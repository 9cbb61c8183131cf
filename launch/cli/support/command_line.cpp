#include "launch/cli/support/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "launch/config/schema_list.h"
#include "launch/support/files/folders.h"

namespace tessera {
namespace {

using Names = std::vector<std::string>;

Names command_names(const CLI::App& app) {
  Names names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  return names;
}

Names option_names(const CLI::App& command) {
  Names names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::string did_you_mean(const std::string& word, const Names& candidates) {
  const Names best = nearest(word, candidates, 1);
  return best.empty() ? "." : fmt::format(", did you mean {}?", best.front());
}

bool is_option(const std::string& word) { return word.compare(0, 1, "-") == 0; }

/// The first unexpected word, preferring options; "" if there is none.
std::string unexpected_word(const CLI::App& app) {
  std::string word;
  for (const std::string& left : app.remaining(/*recurse=*/true)) {
    if (is_option(left)) return left;
    if (word.empty()) word = left;
  }
  return word;
}

bool is(const CLI::Error& error, CLI::ExitCodes code) {
  return error.get_exit_code() == static_cast<int>(code);
}

std::string unexpected(const CLI::App& app, const CLI::App& command) {
  const std::string word = unexpected_word(app);
  if (!is_option(word)) return fmt::format("'{}' was not expected after what came before it", word);
  const Names names = option_names(command);
  return fmt::format("there is no option {}{} The options are {}", word, did_you_mean(word, names),
                     fmt::join(names, ", "));
}

std::string no_command(const CLI::App& app) {
  const Names names = command_names(app);
  const std::string word = unexpected_word(app);
  if (is_option(word)) return unexpected(app, app);
  return fmt::format("there is no command '{}'{} The commands are {}", word,
                     did_you_mean(word, names), fmt::join(names, ", "));
}

}  // namespace

std::string usage_error(const CLI::App* app, const CLI::Error& error) {
  const auto chosen = app->get_subcommands();
  const CLI::App& command = chosen.empty() ? *app : *chosen.front();
  const std::string name =
      chosen.empty() ? app->get_name() : app->get_name() + " " + command.get_name();
  std::string what = error.what();
  if (is(error, CLI::ExitCodes::ExtrasError)) what = unexpected(*app, command);
  if (is(error, CLI::ExitCodes::RequiredError) && chosen.empty()) what = no_command(*app);
  const std::string usage = CLI::Formatter().make_usage(&command, name);
  return fmt::format("error: {}: {}\n{}{} --help says more\n", name, what, usage, name);
}

std::string command_list(const CLI::App& app) {
  size_t longest = 0;
  for (const std::string& name : command_names(app)) longest = std::max(longest, name.size());
  std::string text;
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    text += fmt::format("{:<{}}  {}\n", command->get_name(), longest, command->get_description());
  }
  return text;
}

std::vector<NamedValue> command_line_of(const CLI::App& command,
                                        const std::vector<std::string>& except) {
  std::string name_of_command = command.get_name();
  const CLI::App* parent = command.get_parent();
  for (; parent != nullptr && parent->get_parent() != nullptr; parent = parent->get_parent()) {
    name_of_command.insert(0, parent->get_name() + " ");
  }
  std::vector<NamedValue> values = {{"the command", name_of_command}};
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    if (option->count() == 0) continue;
    const auto home = std::ranges::find_if(option->results(), names_home);
    if (home != option->results().end() && option->get_type_name() != "TEXT") {
      throw CLI::ValidationError(name, home_advice(*home));
    }
    if (std::ranges::find(except, name) != except.end()) continue;
    values.push_back({name, fmt::format("{}", fmt::join(option->results(), " "))});
  }
  return values;
}

void add_model_argument(CLI::App& command, std::string& run, bool& ema) {
  command
      .add_option("RUN", run,
                  "Folder of a run (uses its newest intact checkpoint) or of one checkpoint")
      ->required()
      ->type_name("");
  command.add_flag("--ema", ema,
                   "Use the averaged weights of a run with optimizer.ema_decay instead of those of "
                   "its last step");
}

CLI::Option* add_overwrite_option(CLI::App& command, bool& value) {
  return command.add_flag("--overwrite", value, "Replace what has the name of an output");
}

CLI::Validator whole_number_from(int64_t least) {
  const auto check = [least](const std::string& text) -> std::string {
    int64_t number = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error == std::errc() && stop == end && number >= least) return "";
    return fmt::format("'{}' is not a whole number from {} on", text, least);
  };
  return {check, "", "whole number"};
}

}  // namespace tessera
