#include "launch/config/chat_form.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/error.h"
#include "launch/support/text/white_space.h"

namespace tessera {
namespace {

constexpr const char* kStart = "start";
constexpr std::array<std::string_view, 3> kStrips = {"none", "lines", "space"};
constexpr std::array<std::string_view, 6> kThoughts = {"keep",       "drop", "drop_lines",
                                                       "drop_space", "own",  "refuse"};

/// A form in which the roles may come in any order: `name_end` follows the name of a role, and
/// `message_end` a text of the system or the user.
ChatForm any_order(const std::string& name, const std::string& begin, const std::string& name_end,
                   const std::string& message_end, const std::string& after_reply) {
  ChatForm form{name};
  for (size_t role = 0; role < kRoleNames.size(); ++role) {
    std::string header = begin;
    header += kRoleNames[role];
    header += name_end;
    form.at_start[role] = {header};
    for (const Role previous : {Role::system, Role::user}) {
      form.after[index_of(previous)][role] = {message_end + header};
    }
    form.after[index_of(Role::assistant)][role] = {after_reply + header};
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

template <typename Value, size_t kSize>
Value value_named(const std::array<std::string_view, kSize>& names, const Json& name,
                  const std::string& where) {
  const auto* found = std::ranges::find(names, name.is_string() ? name.get<std::string>() : "");
  require(found != names.end(), "{}: has {}, but must be one of {}", where, quote(name.dump()),
          fmt::join(names, ", "));
  return static_cast<Value>(found - names.begin());
}

template <size_t kSize>
std::string_view name_of(const std::array<std::string_view, kSize>& names, auto value) {
  return names[static_cast<size_t>(value)];
}

Json trim_json(Trim trim) {
  return Json::array({name_of(kStrips, trim.left), name_of(kStrips, trim.right)});
}

Trim trim_in(const JsonObject& object) {
  const Json& sides = object.list("trim");
  require(sides.size() == 2, "{}: \"trim\" must have two sides, but has {}", object.where(),
          sides.size());
  return {value_named<Strip>(kStrips, sides[0], object.where()),
          value_named<Strip>(kStrips, sides[1], object.where())};
}

/// A text of any length.
std::string text_in(const JsonObject& object, const char* key) {
  const Json& value = object.at(key);
  require(value.is_string(), "{}: \"{}\" must be a text, but is {}", object.where(), key,
          json_type(value));
  return value.get<std::string>();
}

Json turns_json(const ChatForm::Turns& turns) {
  Json json = Json::object();
  for (size_t role = 0; role < kRoleNames.size(); ++role) {
    if (!turns[role]) continue;
    json[std::string(kRoleNames[role])] = {{"before", turns[role]->before},
                                           {"trim", trim_json(turns[role]->trim)}};
  }
  return json;
}

/// The trim of a reply is in ChatForm::Reply.
ChatForm::Turns turns_from_json(const Json& json, const std::string& where) {
  const JsonObject object(json, where);
  ChatForm::Turns turns;
  for (size_t role = 0; role < kRoleNames.size(); ++role) {
    const std::string name(kRoleNames[role]);
    if (!object.has(name.c_str())) continue;
    const JsonObject turn(object.object(name.c_str()), fmt::format("{}, {}", where, name));
    const bool is_reply = role == index_of(Role::assistant);
    turns[role] = {text_in(turn, "before"), is_reply ? Trim() : trim_in(turn)};
  }
  return turns;
}

Json reply_json(const ChatForm::Reply& reply) {
  return {{"given", reply.given},
          {"begin", reply.begin},
          {"trim", trim_json(reply.trim)},
          {"thoughts", name_of(kThoughts, reply.thoughts)}};
}

ChatForm::Reply reply_from_json(const Json& json, const std::string& where) {
  const JsonObject object(json, where);
  return {text_in(object, "given"), text_in(object, "begin"), trim_in(object),
          value_named<Thoughts>(kThoughts, object.at("thoughts"), where)};
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
  if (!form.date.empty()) json["date"] = form.date;
  if (!form.problem.empty()) {
    json["problem"] = form.problem;
    return json;
  }
  json["turns"] = {{kStart, turns_json(form.at_start)}};
  for (size_t role = 0; role < kRoleNames.size(); ++role) {
    json["turns"][fmt::format("after {}", kRoleNames[role])] = turns_json(form.after[role]);
  }
  json["replies"] = {{"earlier", reply_json(form.earlier)}, {"last", reply_json(form.last)}};
  json["prompt_end"] = form.prompt_end;
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
  if (object.has("date")) form.date = object.text("date");
  if (object.has("problem")) {
    form.problem = text_in(object, "problem");
    return form;
  }
  const JsonObject turns(object.object("turns"), where + ": \"turns\"");
  form.at_start = turns_from_json(turns.object(kStart), turns.where());
  for (size_t role = 0; role < kRoleNames.size(); ++role) {
    const std::string name = fmt::format("after {}", kRoleNames[role]);
    form.after[role] = turns_from_json(turns.object(name.c_str()), turns.where());
  }
  const JsonObject replies(object.object("replies"), where + ": \"replies\"");
  form.earlier = reply_from_json(replies.object("earlier"), replies.where());
  form.last = reply_from_json(replies.object("last"), replies.where());
  form.prompt_end = text_in(object, "prompt_end");
  form.reply_end = text_in(object, "reply_end");
  for (const Json& token : object.list("tokens")) {
    require(token.is_string(), "{}: \"tokens\" must be texts, but one is {}", where,
            json_type(token));
    form.tokens.push_back(token.get<std::string>());
  }
  return form;
}

std::string_view trimmed(std::string_view text, Trim trim) {
  if (trim.left == Strip::space) text = trimmed_left(text);
  if (trim.right == Strip::space) text = trimmed_right(text);
  while (trim.left == Strip::lines && text.starts_with('\n')) text.remove_prefix(1);
  while (trim.right == Strip::lines && text.ends_with('\n')) text.remove_suffix(1);
  return text;
}

}  // namespace tessera
