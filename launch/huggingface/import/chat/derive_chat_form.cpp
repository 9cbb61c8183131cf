#include "launch/huggingface/import/chat/derive_chat_form.h"

#include <algorithm>

#include "core/error.h"
#include "launch/data/jinja/jinja_program.h"

namespace tessera {
namespace {

RenderedChat check_from_json(const Json& json, const std::string& where) {
  const JsonObject object(json, where);
  RenderedChat check{{}, object.flag("is_prompt"), object.at("text").get<std::string>()};
  for (const Json& message : object.list("messages")) {
    const auto role = std::ranges::find(kRoleNames, message.at(0).get<std::string>());
    require(role != kRoleNames.end(), "{}: a message has an unknown role", where);
    check.messages.emplace_back(static_cast<Role>(role - kRoleNames.begin()),
                                message.at(1).get<std::string>());
  }
  return check;
}

}  // namespace

DerivedChat derive_chat_form(const std::string& jinja,
                             const std::map<std::string, std::string>& tokens,
                             const std::vector<std::string>& names) {
  const std::string where = "the form of a template";
  const Json json = run_jinja_program(kDeriveChatFormPy, {{"names", names}}, jinja, tokens, "");
  const JsonObject answer(json, where);
  DerivedChat derived{chat_form_from_json(answer.object("form"), where), {}, {}};
  for (const Json& check : answer.list("checks")) {
    derived.checks.push_back(check_from_json(check, where));
  }
  derived.notes = answer.list("notes").get<std::vector<std::string>>();
  return derived;
}

}  // namespace tessera
