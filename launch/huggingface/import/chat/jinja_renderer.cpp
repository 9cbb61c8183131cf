#include "launch/huggingface/import/chat/jinja_renderer.h"

#include "core/error.h"
#include "launch/support/run_program.h"
#include "launch/support/text/json.h"
#include "launch/support/text/print.h"

namespace tessera {
namespace {

constexpr std::chrono::seconds kLimit{60};

/// Reads {"jinja", "tokens", "chats": [{"messages", "add_generation_prompt"}]} and writes {"chats":
/// [{"text"} or {"error"}], "has_date"}, {"missing"} or {"error"}. The settings are those of
/// transformers (utils/chat_template_utils.py).
constexpr const char* kScript = R"(
import sys
sys.path[:] = [path for path in sys.path if path]  # no modules from the current folder
import datetime, json
request = json.loads(sys.stdin.buffer.read())
try:
    import jinja2, jinja2.debug, jinja2.ext, jinja2.sandbox
except ImportError:
    print(json.dumps({"missing": "jinja2"}))
    sys.exit()
import resource

class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        next(parser.stream)
        return parser.parse_statements(["name:endgeneration"], drop_needle=True)

has_date = False

def strftime_now(text):
    global has_date
    has_date = True
    return now.strftime(text)

def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)

def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

now = datetime.datetime.now()
environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
    trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
environment.filters["tojson"] = tojson
environment.globals["raise_exception"] = raise_exception
environment.globals["strftime_now"] = strftime_now
environment.from_string("{{ 'text' }}").render()  # loads modules
resource.setrlimit(resource.RLIMIT_CPU, (30, 30))
resource.setrlimit(resource.RLIMIT_AS, (2 ** 31, 2 ** 31))
resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
try:
    template = environment.from_string(request["jinja"])
    chats = []
    for chat in request["chats"]:
        try:
            text = template.render(tools=None, documents=None, **chat, **request["tokens"])
            chats.append({"text": text})
        except Exception as error:
            chats.append({"error": str(error)[:200] or "error"})
    answer = {"chats": chats, "has_date": has_date}
except Exception as error:
    answer = {"error": str(error)[:200]}
print(json.dumps(answer))
)";

Json request_of(const std::string& jinja, const std::map<std::string, std::string>& tokens,
                const std::vector<ChatProbe>& chats) {
  Json request = {{"jinja", jinja}, {"tokens", Json(tokens)}, {"chats", Json::array()}};
  for (const ChatProbe& chat : chats) {
    Json messages = Json::array();
    for (const auto& [role, text] : chat.messages) {
      messages.push_back({{"role", kRoleNames[index_of(role)]}, {"content", text}});
    }
    request["chats"].push_back(
        {{"messages", messages}, {"add_generation_prompt", chat.add_generation_prompt}});
  }
  return request;
}

}  // namespace

RenderedChats render_chats(const std::string& jinja,
                           const std::map<std::string, std::string>& tokens,
                           const std::vector<ChatProbe>& chats) {
  const auto output =
      run_program({"python3", "-c", kScript}, to_text(request_of(jinja, tokens, chats)), kLimit);
  constexpr const char* kAdvice =
      "install python3 and jinja2 (Debian's python3-jinja2) and import again";
  require(output.has_value(), "it needs python3, which is missing: {}", kAdvice);
  const Json answer = parse_json(*output, "the rendered conversations");
  require(!answer.contains("missing"), "it needs jinja2 of python3, which is missing: {}", kAdvice);
  require(!answer.contains("error"), "it is no template: {}", answer.value("error", std::string()));
  RenderedChats rendered;
  rendered.has_date = answer.at("has_date").get<bool>();
  for (const Json& chat : answer.at("chats")) {
    rendered.chats.push_back(
        {chat.value("text", std::string()), chat.value("error", std::string())});
  }
  return rendered;
}

}  // namespace tessera
