#include "launch/cli/support/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "launch/support/files/folders.h"

namespace tessera {

std::string command_list(const CLI::App& app) {
  size_t longest = 0;
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    longest = std::max(longest, command->get_name().size());
  }
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
