#include "launch/data/datasets/chat_messages.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/error.h"

namespace tessera {
namespace {

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

/// A role in ShareGPT's words.
std::string_view role_of_sharegpt(std::string_view name) {
  return name == "human" ? "user" : name == "gpt" ? "assistant" : name;
}

Message message_from(const Json& json, const std::string& where) {
  require(json.is_object(), "{}: must be an object with role and content, but is {}", where,
          json_type(json));
  if (json.contains("from")) {
    return {role_named(role_of_sharegpt(text_of(json, "from", where)), where),
            text_of(json, "value", where)};
  }
  for (const auto& [key, value] : json.items()) {
    require(key == "role" || key == "content" || value.empty(),
            "{}: has a field {}, but only role and content are allowed", where, quote(key));
  }
  return {role_named(text_of(json, "role", where), where), text_of(json, "content", where)};
}

}  // namespace

void add_messages(const Json& list, const std::string& where, std::string_view of,
                  std::vector<Message>& messages) {
  int64_t number = 0;
  for (const Json& message : list) {
    messages.push_back(message_from(message, fmt::format("{}, message {}{}", where, ++number, of)));
  }
}

void for_each_prompt(const std::string& path, const std::function<void(const PromptLine&)>& visit,
                     const RowOptions& options) {
  if (path.ends_with(".txt")) {
    return for_each_txt_line(path, options, [&](std::string_view text, int64_t number) {
      visit({number, text, {}});
    });
  }
  const Json first = first_row(path, options.columns);
  const bool is_list = first.contains("prompt") && first["prompt"].is_array();
  RowReader rows(path, {{"prompt"}}, options);
  std::vector<Message> messages;
  while (rows.next()) {
    if (!is_list) {
      visit({rows.number(), rows.text("prompt"), {}});
      continue;
    }
    const Json& prompt = *rows.json("prompt");
    require(prompt.is_array(),
            "{}: \"prompt\" must be a list of messages, because the first row has one, but is {}",
            rows.where(), json_type(prompt));
    messages.clear();
    add_messages(prompt, rows.where(), "", messages);
    require(!messages.empty(), "{}: there is no message", rows.where());
    visit({rows.number(), {}, messages});
  }
}

}  // namespace tessera
