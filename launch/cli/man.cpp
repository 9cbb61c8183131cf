#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include "core/version.h"
#include "launch/cli/commands.h"
#include "launch/cli/support/command_line.h"
#include "launch/config/schema_list.h"
#include "launch/support/exit_codes.h"
#include "launch/support/text/print.h"

namespace tessera {
namespace {

constexpr const char* kConfigPage = "yaml";

/// Text as roff: no character of it is a request or an escape.
std::string roff(const std::string& text) {
  std::string escaped;
  bool at_start = true;
  for (const char c : text) {
    if (at_start && (c == '.' || c == '\'')) escaped += "\\&";
    if (c == '\\') {
      escaped += "\\e";
    } else if (c == '-') {
      escaped += "\\-";
    } else {
      escaped += c;
    }
    at_start = c == '\n';
  }
  return escaped;
}

/// Markdown of the configuration's reference as roff: `code` is bold, and links are their text.
std::string roff_of_markdown(const std::string& text) {
  static const std::regex link(R"(\[([^\]]*)\]\([^)]*\))");
  std::string page;
  bool is_code = false, is_first = true;
  for (const std::string& piece : CLI::detail::split(std::regex_replace(text, link, "$1"), '`')) {
    if (!is_first) page += is_code ? "\\fR" : "\\fB";
    if (!is_first) is_code = !is_code;
    page += roff(piece);
    is_first = false;
  }
  return page;
}

std::string heading(const std::string& name, int section, const std::string& what) {
  return fmt::format(".TH \"{}\" {} \"\" \"tessera {}\" \"Tessera\"\n.SH NAME\n{} \\- {}\n", name,
                     section, kVersion, roff(name), roff(what));
}

/// "-h, --help", or the name of an argument.
std::string names_of(const CLI::Option& option) {
  if (option.get_positional()) {
    const std::string type = option.get_type_name();
    return type.empty() || type.find('|') != std::string::npos ? option.get_name() : type;
  }
  std::string names;
  for (const std::string& name : option.get_snames()) names += "-" + name + ", ";
  for (const std::string& name : option.get_lnames()) names += "--" + name + ", ";
  return names.substr(0, names.size() - 2);
}

std::string entry(const CLI::Option& option) {
  std::string text = fmt::format(".TP\n\\fB{}\\fR", roff(names_of(option)));
  if (option.get_type_size() != 0 && !option.get_positional()) {
    text += fmt::format(" \\fI{}\\fR", roff(option.get_type_name()));
  }
  if (option.get_expected_max() > 1) text += " ...";
  text += "\n" + roff(option.get_description());
  if (!option.get_default_str().empty()) {
    text += fmt::format(" (default: {})", roff(option.get_default_str()));
  }
  if (option.get_required()) text += " (required)";
  return text + "\n";
}

/// The synopsis of a command, and its options or those of each of its commands.
std::string options_of(const CLI::App& command, const std::string& name) {
  std::string usage = CLI::Formatter().make_usage(&command, name);
  usage = usage.substr(usage.find(name));
  while (usage.ends_with('\n')) usage.pop_back();
  std::string page = fmt::format(".SH SYNOPSIS\n\\fB{}\\fR{}\n.SH DESCRIPTION\n{}.\n", roff(name),
                                 roff(usage.substr(name.size())), roff(command.get_description()));
  std::string options;
  for (const CLI::Option* option : command.get_options()) options += entry(*option);
  if (!options.empty()) page += ".SH OPTIONS\n" + options;
  for (const CLI::App* nested : command.get_subcommands({})) {
    page += fmt::format(".SH {}\n{}.\n", roff(name + " " + nested->get_name()),
                        roff(nested->get_description()));
    for (const CLI::Option* option : nested->get_options()) page += entry(*option);
  }
  return page;
}

std::string exit_status() {
  std::string page = ".SH EXIT STATUS\n";
  for (const ExitCodeMeaning& code : exit_codes()) {
    page += fmt::format(".TP\n\\fB{}\\fR (\\fI{}\\fR)\n{}.\n", static_cast<int>(code.code),
                        code.name, roff(std::string(code.meaning)));
  }
  return page;
}

std::string program_page(const CLI::App& app) {
  std::string page = heading("tessera", 1, "train transformers on many ranks");
  page +=
      ".SH SYNOPSIS\n\\fBtessera\\fR COMMAND ...\n.br\n\\fBtessera run\\fR \\-np N "
      "COMMAND ...\n.SH COMMANDS\n";
  for (const CLI::App* command : app.get_subcommands({})) {
    page += fmt::format(".TP\n\\fBtessera\\-{}\\fR(1)\n{}.\n", roff(command->get_name()),
                        roff(command->get_description()));
  }
  return page + exit_status() + ".SH SEE ALSO\n\\fBtessera.yaml\\fR(5), \\fBmpirun\\fR(1)\n";
}

std::string command_page(const CLI::App& command) {
  const std::string name = "tessera " + command.get_name();
  return heading("tessera-" + command.get_name(), 1, command.get_description()) +
         options_of(command, name) + exit_status() +
         ".SH SEE ALSO\n\\fBtessera\\fR(1), \\fBtessera.yaml\\fR(5)\n";
}

std::string config_page() {
  std::string page = heading("tessera.yaml", 5, "the configuration of a run");
  page +=
      ".SH DESCRIPTION\nOne YAML file configures a run. A key that is not given has its default. "
      "\\fBtessera\\-config\\fR(1) checks a file and prints all of its keys.\n";
  for (const SectionInfo& section : config_sections()) {
    page += fmt::format(".SH {}\n{}\n", roff(section.name), roff_of_markdown(section.meaning));
    for (const KeyInfo& key : section.keys) {
      const std::string value = !key.alternative.empty() ? "required, or " + key.alternative
                                : key.required           ? "required"
                                : key.by_kind            ? "default: by model.kind"
                                : key.derived            ? "default: auto"
                                                         : "default: " + key.default_value;
      page +=
          fmt::format(".TP\n\\fB{}\\fR: \\fI{}\\fR ({})\n{}\n", roff(key.full_name),
                      roff_of_markdown(key.allowed), roff(value), roff_of_markdown(key.meaning));
    }
  }
  return page + ".SH SEE ALSO\n\\fBtessera\\fR(1)\n";
}

const CLI::App* find_command(const CLI::App& app, const std::string& name) {
  const std::vector<const CLI::App*> commands = app.get_subcommands({});
  const auto named = std::ranges::find(commands, name, &CLI::App::get_name);
  return named == commands.end() ? nullptr : *named;
}

}  // namespace

void add_man_command(CLI::App& app) {
  const auto page = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("man", "Print a manual page of this program");
  const auto exists = [&app](const std::string& name) -> std::string {
    if (name == kConfigPage || find_command(app, name) != nullptr) return "";
    return fmt::format("there is no page '{}': name a command, or {}", name, kConfigPage);
  };
  command
      ->add_option("PAGE", *page,
                   fmt::format("A command, for its page, or {}, for that of configuration files; "
                               "otherwise the program's",
                               kConfigPage))
      ->type_name("")
      ->check(exists, "");
  command->callback([&app, page] {
    const CLI::App* const named = find_command(app, *page);
    print_text(named != nullptr       ? command_page(*named)
               : *page == kConfigPage ? config_page()
                                      : program_page(app));
  });
}

}  // namespace tessera
