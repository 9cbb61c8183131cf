#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launch/cli/commands.h"
#include "launch/cli/support/command_line.h"
#include "launch/config/schema_list.h"
#include "launch/support/text/print.h"

namespace tessera {
namespace {

// Both scripts ask the program for the words, so that they do not change with its options. Where it
// has none, the shell completes file names.
constexpr std::string_view kBash =
    R"sh(# bash completion for tessera, also behind mpirun:  eval "$(tessera completion bash)"
_tessera() {
  local word at=0
  COMPREPLY=()
  while [[ ${COMP_WORDS[at]##*/} != tessera ]]; do
    ((++at < COMP_CWORD)) || return
  done
  while IFS= read -r word; do
    COMPREPLY+=("$word")
  done < <("${COMP_WORDS[at]}" completion words -- "${COMP_WORDS[@]:at+1:COMP_CWORD-at}" 2>/dev/null)
  if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then compopt -o nospace; fi
}
complete -o default -F _tessera tessera
for launcher in mpirun mpiexec srun; do
  complete -p $launcher &>/dev/null || complete -o default -F _tessera $launcher
done
unset launcher
)sh";

constexpr std::string_view kZsh = R"sh(#compdef tessera mpirun mpiexec srun
# zsh completion for tessera, also behind mpirun:  eval "$(tessera completion zsh)"
_tessera() {
  local -a found keys
  local -i at=${words[(i)(*/|)tessera]}
  (( at < CURRENT )) || { _files; return }
  found=("${(@f)$("${words[at]}" completion words -- "${(@)words[at+1,CURRENT]}" 2>/dev/null)}")
  found=(${found:#})
  keys=(${(M)found:#*=})
  found=(${found:#*=})
  (( $#keys )) && compadd -S '' -- $keys
  (( $#found )) && compadd -- $found
  (( $#keys + $#found )) || _files
}
if [ "$funcstack[1]" = _tessera ]; then _tessera "$@"; else compdef _tessera tessera mpirun mpiexec srun; fi
)sh";

bool is_long_option(std::string_view word) { return word.starts_with("--") && word.size() > 2; }

/// The command that the words name, nullptr if there is none, and its option whose value comes
/// next.
struct Place {
  const CLI::App* command;
  const CLI::Option* option = nullptr;
};

/// The commands that may follow a command's options: its own or, of `run` and `supervise`, all.
std::vector<const CLI::App*> commands_after(const CLI::App& app, const CLI::App& command) {
  return (command.get_prefix_command() ? app : command).get_subcommands({});
}

Place place_after(const CLI::App& app, std::span<const std::string> words) {
  Place place = {&app};
  for (const std::string& word : words) {
    if (is_long_option(word)) {
      const CLI::Option* const option = place.command->get_option_no_throw(word);
      const bool takes_value = option != nullptr && option->get_expected_max() > 0;
      place.option = takes_value ? option : nullptr;
      continue;
    }
    // An option with several values keeps them until the next option.
    if (place.option != nullptr && place.option->get_expected_max() > 1) continue;
    if (place.option != nullptr) {
      place.option = nullptr;
      continue;
    }
    const std::vector<const CLI::App*> subcommands = commands_after(app, *place.command);
    if (subcommands.empty()) continue;
    const auto named = std::ranges::find(subcommands, word, &CLI::App::get_name);
    if (named != subcommands.end()) {
      place.command = *named;
    } else if (!place.command->get_prefix_command()) {
      return {nullptr};
    }  // otherwise the value of -np, or a word for mpirun
  }
  return place;
}

/// The words that an option's help lists, as in "auto|cpu|cuda".
std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  if (type.find('|') == std::string::npos) return {};
  std::vector<std::string> words;
  for (const auto& word : CLI::detail::split(type, '|')) words.push_back(word);
  return words;
}

/// Keys with "=" or, if `typed` begins with a key and "=", what may follow them.
std::vector<std::string> overrides(std::string_view typed) {
  std::vector<std::string> all;
  for (const SectionInfo& section : config_sections()) {
    for (const KeyInfo& key : section.keys) {
      const std::string name = key.full_name + "=";
      if (!typed.starts_with(name)) {
        all.push_back(name);
        continue;
      }
      for (const std::string& word : key.words) all.push_back(name + word);
    }
  }
  return all;
}

/// The words that may follow `words`, whose last one is what was typed of the next. None where a
/// file name or any other text may follow.
std::vector<std::string> next_words(const CLI::App& app, std::span<const std::string> words) {
  if (words.empty()) return {};
  std::string typed = words.back(), key;
  std::span<const std::string> before = words.first(words.size() - 1);
  // bash makes three words of KEY=VALUE, and replaces the last one.
  if (typed == "=" && !before.empty()) {
    key = before.back() + "=";
    typed = key;
  } else if (before.size() >= 2 && before.back() == "=") {
    key = before[before.size() - 2] + "=";
    typed = key + typed;
  }
  if (!key.empty()) before = words.first(words.size() - (words.back() == "=" ? 2 : 3));
  const Place place = place_after(app, before);
  if (place.command == nullptr) return {};
  std::vector<std::string> all;
  if (place.option != nullptr) {
    all = place.option->check_lname("set") ? overrides(typed) : choices_of(*place.option);
  } else if (typed.starts_with('-')) {
    for (const CLI::Option* option : place.command->get_options()) {
      for (const std::string& name : option->get_lnames()) all.push_back("--" + name);
    }
  } else {
    for (const CLI::App* subcommand : commands_after(app, *place.command)) {
      all.push_back(subcommand->get_name());
    }
    for (const CLI::Option* option : place.command->get_options()) {
      if (option->get_positional()) std::ranges::copy(choices_of(*option), std::back_inserter(all));
    }
  }
  std::erase_if(all, [&](const std::string& word) { return !word.starts_with(typed); });
  for (std::string& word : all) word.erase(0, key.size());
  std::ranges::sort(all);
  return all;
}

}  // namespace

void add_completion_command(CLI::App& app) {
  enum class Output : uint8_t { bash, zsh, words };
  struct Options {
    Output output = Output::bash;
    std::vector<std::string> words;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("completion", "Print a script that lets a shell complete this program");
  add_choice(*command, "OUTPUT", options->output,
             {{"bash", Output::bash}, {"zsh", Output::zsh}, {"words", Output::words}},
             "The script of a shell, or the words that may follow WORDS, which the scripts use")
      ->required();
  command->add_option("WORDS", options->words, "After --: a command line, up to the typed word")
      ->type_name("");
  command->callback([&app, options] {
    if (options->output == Output::bash) print_text(kBash);
    if (options->output == Output::zsh) print_text(kZsh);
    if (options->output != Output::words) return;
    for (const std::string& word : next_words(app, options->words)) print_out("{}\n", word);
  });
}

}  // namespace tessera
