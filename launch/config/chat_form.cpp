#include "launch/config/chat_form.h"

#include "core/error.h"

namespace tessera {
namespace {

constexpr const char* kStart = "start";

/// A form in which the roles may come in any order: `name_end` follows the name of a role, and
/// `message_end` a text of the system or the user.
ChatForm any_order(const std::string& name, const std::string& begin, const std::string& name_end,
                   const std::string& message_end, const std::string& after_reply) {
  ChatForm form{name};
  for (size_t role = 0; role < kRoleNames.size(); ++role) {
    std::string header = begin;
    header += kRoleNames[role];
    header += name_end;
    form.at_start[role] = header;
    for (const Role previous : {Role::system, Role::user}) {
      form.after[index_of(previous)][role] = message_end + header;
    }
    form.after[index_of(Role::assistant)][role] = after_reply + header;
  }
  return form;
}

ChatForm make_chatml() {
  ChatForm form = any_order("chatml", "<|im_start|>", "\n", "<|im_end|>\n", "\n");
  form.reply_end = "<|im_end|>";
  form.tokens = {"<|im_start|>", "<|im_end|>"};
  form.jinja =
      "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + "
      "message['content'] + '<|im_end|>\\n' }}{% endfor %}"
      "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
  return form;
}

ChatForm make_plain() {
  ChatForm form = any_order("plain", "", ":\n", "\n", "");
  form.jinja =
      "{% for message in messages %}{{ message['role'] + ':\\n' + message['content'] + "
      "(eos_token if message['role'] == 'assistant' else '\\n') }}{% endfor %}"
      "{% if add_generation_prompt %}{{ 'assistant:\\n' }}{% endif %}";
  return form;
}

Json before_json(const ChatForm::Before& before) {
  Json json = Json::object();
  for (size_t role = 0; role < kRoleNames.size(); ++role) {
    if (before[role]) json[std::string(kRoleNames[role])] = *before[role];
  }
  return json;
}

/// A text of any length.
std::string text_in(const JsonObject& object, const char* key) {
  const Json& value = object.at(key);
  require(value.is_string(), "{}: \"{}\" must be a text, but is {}", object.where(), key,
          json_type(value));
  return value.get<std::string>();
}

ChatForm::Before before_from_json(const Json& json, const std::string& where) {
  const JsonObject object(json, where);
  ChatForm::Before before;
  for (size_t role = 0; role < kRoleNames.size(); ++role) {
    const std::string name(kRoleNames[role]);
    if (object.has(name.c_str())) before[role] = text_in(object, name.c_str());
  }
  return before;
}

}  // namespace

const ChatForm& chatml_form() {
  static const ChatForm form = make_chatml();
  return form;
}

const ChatForm& plain_form() {
  static const ChatForm form = make_plain();
  return form;
}

Json to_json(const ChatForm& form) {
  Json json = {
      {"name", form.name}, {"jinja", form.jinja}, {"jinja_tokens", Json(form.jinja_tokens)}};
  if (!form.problem.empty()) {
    json["problem"] = form.problem;
    return json;
  }
  json["before"] = {{kStart, before_json(form.at_start)}};
  json["trims"] = Json::object();
  for (size_t role = 0; role < kRoleNames.size(); ++role) {
    const std::string name(kRoleNames[role]);
    json["before"]["after " + name] = before_json(form.after[role]);
    json["trims"][name] = form.trims[role];
  }
  json["reply_begin"] = form.reply_begin;
  json["reply_end"] = form.reply_end;
  json["tokens"] = form.tokens;
  return json;
}

ChatForm chat_form_from_json(const Json& json, const std::string& where) {
  const JsonObject object(json, where);
  ChatForm form{object.text("name")};
  form.jinja = text_in(object, "jinja");
  for (const auto& [name, token] : object.object("jinja_tokens").items()) {
    require(token.is_string(), "{}: \"jinja_tokens\" must be texts, but {} is {}", where,
            quote(name), json_type(token));
    form.jinja_tokens[name] = token.get<std::string>();
  }
  if (object.has("problem")) {
    form.problem = text_in(object, "problem");
    return form;
  }
  const JsonObject before(object.object("before"), where + ": \"before\"");
  const JsonObject trims(object.object("trims"), where + ": \"trims\"");
  form.at_start = before_from_json(before.object(kStart), before.where());
  for (size_t role = 0; role < kRoleNames.size(); ++role) {
    const std::string name(kRoleNames[role]);
    form.after[role] = before_from_json(before.object(("after " + name).c_str()), before.where());
    form.trims[role] = trims.flag(name.c_str());
  }
  form.reply_begin = text_in(object, "reply_begin");
  form.reply_end = text_in(object, "reply_end");
  for (const Json& token : object.list("tokens")) {
    require(token.is_string(), "{}: \"tokens\" must be texts, but one is {}", where,
            json_type(token));
    form.tokens.push_back(token.get<std::string>());
  }
  return form;
}

}  // namespace tessera
