#include "launch/data/datasets/sft_lines.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

#include "core/error.h"
#include "launch/data/datasets/line_reader.h"
#include "launch/support/files/mapped_file.h"
#include "launch/support/text/json.h"

namespace tessera {
namespace {

constexpr std::array<std::string_view, 2> kPromptNames = {"prompt", "completion"};
constexpr const char* kMessages = "messages";
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
  require(found->is_string(), "{}: \"{}\" must be a string, but is a {}", where, key,
          found->type_name());
  return found->get_ref<const std::string&>();
}

Message message_of(const Json& json, const std::string& where) {
  require(json.is_object(), "{}: must be an object with role and content, but is a {}", where,
          json.type_name());
  for (const auto& [key, value] : json.items()) {
    require(key == "role" || key == "content",
            "{}: has a field {}, but only role and content are allowed", where, quote(key));
  }
  const Message message = {role_named(text_of(json, "role", where), where),
                           text_of(json, "content", where)};
  require(!message.text.empty(), "{}: the content is empty: leave the message out", where);
  return message;
}

void read_messages(LineReader& lines, const std::function<void(const SftLine&)>& visit) {
  std::vector<Message> messages;
  while (lines.next()) {
    const std::string where = lines.where();
    const Json object = parse_json_line(lines, kMessages);
    for (const auto& [key, value] : object.items()) {
      require(key == kMessages, "{}: has a field {}, but only {} are allowed", where, quote(key),
              kSftFields);
    }
    const auto found = object.find(kMessages);
    require(found != object.end(), "{}: there is no \"{}\"", where, kMessages);
    require(found->is_array(), "{}: \"{}\" must be a list, but is a {}", where, kMessages,
            found->type_name());
    messages.clear();
    for (const Json& message : *found) {
      messages.push_back(
          message_of(message, fmt::format("{}, message {}", where, messages.size() + 1)));
    }
    const auto is_reply = [](const Message& message) { return message.role == Role::assistant; };
    require(std::ranges::any_of(messages, is_reply),
            "{}: there is no message of the assistant, from which the model learns", where);
    require(is_reply(messages.back()),
            "{}: the last message is of the {}, but the model learns only from those of the "
            "assistant: leave out what follows the assistant's last message",
            where, kRoleNames[static_cast<size_t>(messages.back().role)]);
    visit({lines.number(), messages});
  }
}

void read_prompts(const std::string& path, const std::function<void(const SftLine&)>& visit) {
  for_each_text_record(path, kPromptFields, [&](const TextRecord& record) {
    const Message messages[] = {{Role::user, *record.texts[0]},
                                {Role::assistant, *record.texts[1]}};
    visit({record.number, messages});
  });
}

}  // namespace

const TextFields kPromptFields = {kPromptNames, 2, kSftFields};

bool has_messages(const std::string& path) {
  const std::vector<std::string> names = text_field_names(path);
  return path.ends_with(".jsonl") && std::ranges::find(names, kMessages) != names.end();
}

void for_each_sft_line(const std::string& path, const std::function<void(const SftLine&)>& visit) {
  if (!has_messages(path)) return read_prompts(path, visit);
  const MappedFile file(path);
  LineReader lines(file);
  read_messages(lines, visit);
}

}  // namespace tessera
