#include "launch/data/jinja/jinja_program.h"

#include "core/error.h"
#include "launch/support/run_program.h"

namespace tessera {

Json run_jinja_program(std::string_view program, Json request, const std::string& jinja,
                       const std::map<std::string, std::string>& tokens, const std::string& date) {
  constexpr std::chrono::seconds kLimit{60};
  constexpr const char* kAdvice =
      "install python3 and jinja2 (Debian's python3-jinja2) and try again";
  request["jinja"] = jinja;
  request["tokens"] = tokens;
  request["date"] = date;
  const std::string text = fmt::format("{}\n\n{}", kChatRendererPy, program);
  const auto output = run_program({"python3", "-c", text}, to_text(request), kLimit);
  require(output.has_value(), "it needs python3, which is missing: {}", kAdvice);
  Json answer = parse_json(*output, "the answer of python3");
  const JsonObject object(answer, "the answer of python3");
  if (object.has("problem")) {
    fail("{}{}", object.at("problem").get<std::string>(),
         object.has("is_missing") ? fmt::format(": {}", kAdvice) : "");
  }
  return answer;
}

}  // namespace tessera
