#include "launch/data/datasets/sft_lines.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <vector>

#include "core/error.h"
#include "launch/data/datasets/chat_messages.h"

namespace tessera {
namespace {

using Names = std::vector<std::string_view>;

/// A format of rows. Its columns are lists of messages, of which the last one is learned, or texts.
struct SftFormat {
  bool has_roles;
  Names columns;
  Names optional = {};
};

const SftFormat kTextFormat = {false, {"prompt", "completion"}};
const SftFormat kSftFormats[] = {{true, {"messages"}},
                                 {true, {"conversations"}},
                                 {false, {"instruction", "output"}, {"input"}},
                                 kTextFormat};
const SftFormat kListFormat = {true, {"prompt", "completion"}};
constexpr std::string_view kTools = "tools";
constexpr std::string_view kSftColumns =
    "prompt and completion, messages, conversations, or instruction, output and perhaps input";

/// The format of the first row, which may have other columns beside those of its format.
const SftFormat& format_of(const std::string& path, const ColumnNames& columns) {
  const Json row = first_row(path, columns);
  std::vector<const SftFormat*> found;
  for (const SftFormat& format : kSftFormats) {
    const auto has = [&](std::string_view name) { return row.contains(name); };
    if (std::ranges::all_of(format.columns, has)) found.push_back(&format);
  }
  require(found.size() <= 1, "{}: the first row has both {} and {}: leave one of them out", path,
          found.empty() ? "" : fmt::format("{}", fmt::join(found[0]->columns, " and ")),
          found.size() < 2 ? "" : fmt::format("{}", fmt::join(found[1]->columns, " and ")));
  if (!found.empty() && found[0]->has_roles) return *found[0];
  const auto is_list = [&](std::string_view name) {
    return row.contains(name) && row[std::string(name)].is_array();
  };
  if (std::ranges::any_of(kListFormat.columns, is_list)) return kListFormat;
  return found.empty() ? kTextFormat : *found[0];
}

/// Whether a row has tools, or a message that belongs to a tool.
bool has_tools(const RowReader& rows, const Names& names) {
  const auto is_given = [](const Json& value) { return !value.is_null() && !value.empty(); };
  if (rows.has(kTools) && is_given(*rows.json(kTools))) return true;
  const auto has_calls = [&](const Json& message) {
    return message.is_object() && (message.value("role", Json()) == "tool" ||
                                   is_given(message.value("tool_calls", Json())));
  };
  return std::ranges::any_of(names, [&](std::string_view name) {
    const Json* list = rows.json(name);
    return list != nullptr && list->is_array() && std::ranges::any_of(*list, has_calls);
  });
}

/// Appends a list of messages, which are counted from 1.
void add_list(const RowReader& rows, std::string_view name, bool only,
              std::vector<Message>& messages) {
  const std::string& where = rows.where();
  const Json* list = rows.json(name);
  require(list != nullptr && list->is_array(), "{}: \"{}\" must be a list of messages{}, but is {}",
          where, name, only ? "" : " because the first row has one",
          list ? json_type(*list) : "a text");
  const std::string of = only ? "" : fmt::format(" of the {}", name);
  const size_t before = messages.size();
  add_messages(*list, where, of, messages);
  for (size_t i = before; i < messages.size(); ++i) {
    require(!messages[i].text.empty(),
            "{}, message {}{}: the content is empty: leave the message out", where, i - before + 1,
            of);
  }
}

/// Reads the lists of messages of a row. Returns the number of those that are given.
size_t read_messages(const RowReader& rows, const Names& names, std::vector<Message>& messages) {
  messages.clear();
  size_t given = 0;
  for (const std::string_view name : names) {
    given = messages.size();
    add_list(rows, name, names.size() == 1, messages);
  }
  const auto is_reply = [](const Message& message) { return message.role == Role::assistant; };
  require(std::ranges::any_of(std::span(messages).subspan(given), is_reply),
          "{}: there is no message of the assistant{}, from which the model learns", rows.where(),
          names.size() == 1 ? "" : fmt::format(" in the {}", names.back()));
  require(is_reply(messages.back()),
          "{}: the last message is of the {}, but the model learns only from those of the "
          "assistant: leave out what follows the assistant's last message",
          rows.where(), kRoleNames[static_cast<size_t>(messages.back().role)]);
  return given;
}

}  // namespace

bool has_messages(const std::string& path, const ColumnNames& columns) {
  return format_of(path, columns).has_roles;
}

void for_each_sft_line(const std::string& path, const std::function<void(const SftLine&)>& visit,
                       const RowOptions& options) {
  const SftFormat& format = format_of(path, options.columns);
  RowFormat columns{format.columns, format.optional};
  if (format.has_roles) columns.in_some = {kTools};
  for (const std::string_view name : format.columns) columns.advice.emplace_back(name, kSftColumns);
  RowReader rows(path, columns, options);
  std::vector<Message> messages;
  while (rows.next()) {
    if (format.has_roles && has_tools(rows, format.columns)) {
      visit({rows.number(), {}, 0, rows.json_text(), format.columns});
      continue;
    }
    if (format.has_roles) {
      const size_t given = read_messages(rows, format.columns, messages);
      visit({rows.number(), messages, given});
      continue;
    }
    std::string prompt(rows.text(format.columns[0]));
    if (rows.has("input") && !rows.text("input").empty()) {
      prompt += fmt::format("\n{}", rows.text("input"));
    }
    const Message both[] = {{Role::user, prompt}, {Role::assistant, rows.text(format.columns[1])}};
    visit({rows.number(), both});
  }
}

}  // namespace tessera
