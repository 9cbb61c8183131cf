#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "launch/support/same_on_ranks.h"

namespace tessera {

/// The commands of `app`, a line each: the name and what it does.
std::string command_list(const CLI::App& app);

/// The command and its given options by name, except those in `except`: the values that must be the
/// same on all ranks of a world.
std::vector<NamedValue> command_line_of(const CLI::App& command,
                                        const std::vector<std::string>& except = {});

/// Adds the option --ids, which excludes the option `text` and sets the same `value`: a string, or
/// a list of them. `value` must live until the command line has been parsed.
template <typename Value>
CLI::Option* add_ids_option(CLI::App& command, Value& value, const std::string& text,
                            const std::string& more = "") {
  const std::string description =
      fmt::format("Token ids instead of {}, as in \"1 2 3\"{}", text, more);
  return command.add_option("--ids", value, description)
      ->type_name("IDS")
      ->excludes(command.get_option(text));
}

/// Adds --overwrite, without which a command replaces no file (replace.h). `value` must live until
/// the command line has been parsed.
CLI::Option* add_overwrite_option(CLI::App& command, bool& value);

/// Accepts integers from `least` on, and rejects others with a message that says so.
CLI::Validator whole_number_from(int64_t least);

/// Adds an option that accepts one of the words in `choices` and sets `value` to the word's
/// meaning. The help shows "--name auto|cpu|cuda=auto", where the default is the current `value`.
/// `value` must live until the command line has been parsed.
template <typename Value>
CLI::Option* add_choice(
    CLI::App& command, const std::string& name, Value& value,
    const std::vector<std::pair<std::string, std::type_identity_t<Value>>>& choices,
    const std::string& description) {
  std::vector<std::string> words;
  std::string default_word;
  for (const auto& [word, meaning] : choices) {
    words.push_back(word);
    if (meaning == value) default_word = word;
  }
  const auto set = [&value, choices, words](const std::string& text) -> std::string {
    for (const auto& [word, meaning] : choices) {
      if (word != text) continue;
      value = meaning;
      return "";
    }
    return fmt::format("'{}' is none of: {}", text, fmt::join(words, ", "));
  };
  return command.add_option(name, description)
      ->type_name(fmt::format("{}", fmt::join(words, "|")))
      ->check(set, "")
      ->default_str(default_word);
}

/// Adds an option whose words are their own values.
inline CLI::Option* add_choice(CLI::App& command, const std::string& name, std::string& value,
                               const std::vector<std::string>& words,
                               const std::string& description) {
  std::vector<std::pair<std::string, std::string>> choices;
  for (const std::string& word : words) choices.emplace_back(word, word);
  return add_choice(command, name, value, choices, description);
}

}  // namespace tessera
