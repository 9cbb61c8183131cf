#include "launch/data/datasets/chat_messages.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "core/error.h"
#include "launch/data/datasets/line_reader.h"
#include "launch/support/files/mapped_file.h"

namespace tessera {
namespace {

constexpr std::array<std::string_view, 1> kPromptName = {"prompt"};
constexpr TextFields kPromptTexts = {kPromptName, 1, "prompt"};

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
  return {role_named(text_of(json, "role", where), where), text_of(json, "content", where)};
}

void read_conversations(const std::string& path,
                        const std::function<void(const PromptLine&)>& visit) {
  const MappedFile file(path);
  LineReader lines(file);
  std::vector<Message> messages;
  while (lines.next()) {
    const std::string where = lines.where();
    const Json object = parse_json_line(lines, kPromptTexts.allowed);
    for (const auto& [key, value] : object.items()) {
      require(key == kPromptName[0], "{}: has a field {}, but only {} are allowed", where,
              quote(key), kPromptTexts.allowed);
    }
    const auto prompt = object.find(kPromptName[0]);
    require(prompt != object.end(), "{}: there is no \"{}\"", where, kPromptName[0]);
    require(prompt->is_array(),
            "{}: \"{}\" must be a list of messages, because line 1 has one, but is {}", where,
            kPromptName[0], json_type(*prompt));
    messages.clear();
    add_messages(*prompt, where, "", messages);
    require(!messages.empty(), "{}: there is no message", where);
    visit({lines.number(), {}, messages});
  }
}

}  // namespace

void add_messages(const Json& list, const std::string& where, std::string_view of,
                  std::vector<Message>& messages) {
  int64_t number = 0;
  for (const Json& message : list) {
    messages.push_back(message_of(message, fmt::format("{}, message {}{}", where, ++number, of)));
  }
}

void for_each_prompt(const std::string& path, const std::function<void(const PromptLine&)>& visit) {
  const Json first = first_json_line(path);
  if (first.contains(kPromptName[0]) && first[std::string(kPromptName[0])].is_array()) {
    return read_conversations(path, visit);
  }
  for_each_first_text(path, kPromptTexts, [&](std::string_view text, int64_t number) {
    visit({number, text, {}});
  });
}

}  // namespace tessera
