#include "launch/huggingface/import/chat/derive_chat_form.h"

#include <algorithm>

#include "core/error.h"
#include "launch/support/run_program.h"

namespace tessera {
namespace {

constexpr std::chrono::seconds kLimit{60};

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
  const Json request = {{"jinja", jinja}, {"tokens", Json(tokens)}, {"names", names}};
  const auto output =
      run_program({"python3", "-c", std::string(kDeriveChatFormPy)}, to_text(request), kLimit);
  constexpr const char* kAdvice =
      "install python3 and jinja2 (Debian's python3-jinja2) and import again";
  require(output.has_value(), "it needs python3, which is missing: {}", kAdvice);
  const std::string where = "the form of a template";
  const Json json = parse_json(*output, where);
  const JsonObject answer(json, where);
  if (answer.has("problem")) {
    fail("{}{}", answer.at("problem").get<std::string>(),
         answer.has("is_missing") ? fmt::format(": {}", kAdvice) : "");
  }
  DerivedChat derived{chat_form_from_json(answer.object("form"), where), {}, {}};
  for (const Json& check : answer.list("checks")) {
    derived.checks.push_back(check_from_json(check, where));
  }
  derived.notes = answer.list("notes").get<std::vector<std::string>>();
  return derived;
}

}  // namespace tessera
