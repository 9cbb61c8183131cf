#include "launch/data/datasets/sft_lines.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "core/error.h"
#include "launch/data/datasets/line_reader.h"
#include "launch/support/files/mapped_file.h"
#include "launch/support/text/json.h"

namespace tessera {
namespace {

constexpr std::array<std::string_view, 2> kPromptNames = {"prompt", "completion"};
constexpr std::array<std::string_view, 1> kMessages = {"messages"};
constexpr std::string_view kSftFields = "prompt and completion (or messages in all lines)";

Role role_named(std::string_view name, const std::string& where) {
  const auto found = std::ranges::find(kRoleNames, name);
  require(found != kRoleNames.end(), "{}: the role is {}, but must be one of {}", where,
          quote(name), fmt::join(kRoleNames, ", "));
  return static_cast<Role>(found - kRoleNames.begin());
}

/// A string of a message.
std::string_view text_of(const Json& message, const char* key, const std::string& where) {
  const auto found = message.find(key);
  require(found != message.end(), "{}: there is no \"{}\"", where, key);
  require(found->is_string(), "{}: \"{}\" must be a string, but is {}", where, key,
          json_type(*found));
  return found->get_ref<const std::string&>();
}

Message message_of(const Json& json, const std::string& where) {
  require(json.is_object(), "{}: must be an object with role and content, but is {}", where,
          json_type(json));
  for (const auto& [key, value] : json.items()) {
    require(key == "role" || key == "content",
            "{}: has a field {}, but only role and content are allowed", where, quote(key));
  }
  const Message message = {role_named(text_of(json, "role", where), where),
                           text_of(json, "content", where)};
  require(!message.text.empty(), "{}: the content is empty: leave the message out", where);
  return message;
}

/// Appends the list `key` of a line. The messages of each list are counted from 1.
void add_messages(const Json& object, std::string_view key, const std::string& where,
                  std::vector<Message>& messages) {
  const auto found = object.find(key);
  require(found != object.end(), "{}: there is no \"{}\"", where, key);
  require(found->is_array(), "{}: \"{}\" must be a list of messages{}, but is {}", where, key,
          key == kMessages[0] ? "" : " because line 1 has one", json_type(*found));
  int64_t number = 0;
  for (const Json& message : *found) {
    messages.push_back(message_of(
        message, fmt::format("{}, message {}{}", where, ++number,
                             key == kMessages[0] ? "" : fmt::format(" of the {}", key))));
  }
}

/// Reads conversations that are split into the lists `names`, of which the last one is learned.
void read_messages(LineReader& lines, std::span<const std::string_view> names,
                   const std::function<void(const SftLine&)>& visit) {
  std::vector<Message> messages;
  while (lines.next()) {
    const std::string where = lines.where();
    const Json object = parse_json_line(lines, kSftFields);
    for (const auto& [key, value] : object.items()) {
      require(std::ranges::find(names, key) != names.end(),
              "{}: has a field {}, but only {} are allowed", where, quote(key), kSftFields);
    }
    messages.clear();
    size_t given = 0;
    for (const std::string_view name : names) {
      given = messages.size();
      add_messages(object, name, where, messages);
    }
    const auto is_reply = [](const Message& message) { return message.role == Role::assistant; };
    require(std::ranges::any_of(std::span(messages).subspan(given), is_reply),
            "{}: there is no message of the assistant{}, from which the model learns", where,
            names.size() == 1 ? "" : fmt::format(" in the {}", names.back()));
    require(is_reply(messages.back()),
            "{}: the last message is of the {}, but the model learns only from those of the "
            "assistant: leave out what follows the assistant's last message",
            where, kRoleNames[static_cast<size_t>(messages.back().role)]);
    visit({lines.number(), messages, given});
  }
}

void read_prompts(const std::string& path, const std::function<void(const SftLine&)>& visit) {
  for_each_text_record(path, kPromptFields, [&](const TextRecord& record) {
    const Message messages[] = {{Role::user, *record.texts[0]},
                                {Role::assistant, *record.texts[1]}};
    visit({record.number, messages});
  });
}

/// The names of the lists of messages in the first line; none if it has none or cannot be read.
std::span<const std::string_view> message_lists(const std::string& path) {
  if (!path.ends_with(".jsonl")) return {};
  try {
    const MappedFile file(path);
    LineReader lines(file);
    if (!lines.next()) return {};
    const Json object = parse_json_line(lines, kSftFields);
    if (object.contains(kMessages[0])) return kMessages;
    const auto is_list = [&](std::string_view name) {
      return object.contains(name) && object[std::string(name)].is_array();
    };
    if (std::ranges::any_of(kPromptNames, is_list)) return kPromptNames;
  } catch (const Error&) {
    return {};  // its reader reports it
  }
  return {};
}

}  // namespace

const TextFields kPromptFields = {kPromptNames, 2, kSftFields};

bool has_messages(const std::string& path) { return !message_lists(path).empty(); }

void for_each_sft_line(const std::string& path, const std::function<void(const SftLine&)>& visit) {
  const std::span<const std::string_view> lists = message_lists(path);
  if (lists.empty()) return read_prompts(path, visit);
  const MappedFile file(path);
  LineReader lines(file);
  read_messages(lines, lists, visit);
}

}  // namespace tessera
