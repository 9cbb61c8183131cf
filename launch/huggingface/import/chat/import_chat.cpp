#include "launch/huggingface/import/chat/import_chat.h"

#include <memory>

#include "core/error.h"
#include "launch/data/datasets/chat_template.h"
#include "launch/huggingface/import/chat/jinja_renderer.h"
#include "launch/huggingface/tokenizer_files.h"
#include "launch/support/files/small_file.h"
#include "launch/support/text/json.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMostBytes = size_t{1} << 20;

Json json_in(const fs::path& path) {
  if (!fs::exists(path)) return Json::object();
  Json json = read_json_file(path);
  require(json.is_object(), "{} must be an object, but is {}", path.string(), json_type(json));
  return json;
}

/// A text, or the one called "default" of a list.
std::optional<std::string> template_in(const Json& settings, const std::string& where) {
  const auto found = settings.find("chat_template");
  if (found == settings.end() || found->is_null()) return std::nullopt;
  if (found->is_string()) return found->get<std::string>();
  require(found->is_array(), "{}: \"chat_template\" must be a text or a list, but is {}", where,
          json_type(*found));
  for (const Json& item : *found) {
    const JsonObject named(item, where + ": \"chat_template\"");
    if (named.text("name") != "default") continue;
    require(named.at("template").is_string(), "{}: a \"template\" must be a text", where);
    return named.at("template").get<std::string>();
  }
  return std::nullopt;
}

/// "bos_token" and so on, in the first of the files that has them.
std::map<std::string, std::string> named_tokens_in(std::initializer_list<const Json*> files) {
  std::map<std::string, std::string> tokens;
  for (const Json* file : files) {
    for (const auto& [key, value] : file->items()) {
      if (!key.ends_with("_token")) continue;
      const bool is_object = value.is_object() && value.contains("content");
      const Json& text = is_object ? value.at("content") : value;
      if (text.is_string()) tokens.emplace(key, text.get<std::string>());
    }
  }
  return tokens;
}

/// The form of a template that an export wrote, if it is one.
std::optional<ChatForm> own_form(const std::string& jinja,
                                 const std::map<std::string, std::string>& tokens,
                                 const Tokenizer& tokenizer) {
  if (jinja == chatml_form().jinja) return chatml_form();
  if (jinja != plain_form().jinja || tokenizer.kind() == "sentencepiece") return std::nullopt;
  const Json end = vocabulary_of(tokenizer).token(tokenizer.end_of_document());
  const auto named = tokens.find("eos_token");
  const bool is_end = named != tokens.end() && end == Json(named->second);
  return is_end ? std::optional(plain_form()) : std::nullopt;
}

}  // namespace

std::optional<ChatForm> import_chat_form(const fs::path& folder, const Tokenizer& tokenizer,
                                         std::vector<std::string>& notes) {
  const fs::path settings_path = folder / "tokenizer_config.json";
  const fs::path file_path = folder / "chat_template.jinja";
  const Json settings = json_in(settings_path), map = json_in(folder / "special_tokens_map.json");
  std::optional<std::string> jinja = template_in(settings, settings_path.string());
  if (fs::exists(file_path)) jinja = read_small_file(file_path.string(), kMostBytes);
  if (!jinja) return std::nullopt;
  require(jinja->size() <= kMostBytes,
          "the chat template of {} has {} bytes, but at most {} are allowed", folder.string(),
          jinja->size(), kMostBytes);
  const std::map<std::string, std::string> tokens = named_tokens_in({&settings, &map});
  const std::map<std::string, int32_t> ids = chat_token_names(tokenizer);
  std::vector<std::string> names;
  for (const auto& [name, id] : ids) names.push_back(name);
  ChatForm form{"imported"};
  bool has_date = false;
  std::vector<std::string> own_notes;
  try {
    const auto render = [&](const std::vector<ChatProbe>& probes) {
      RenderedChats rendered = render_chats(*jinja, tokens, probes);
      has_date = rendered.has_date;
      return std::move(rendered.chats);
    };
    const std::optional<ChatForm> own = own_form(*jinja, tokens, tokenizer);
    form = own ? *own : derive_chat_form(render, names, own_notes);
    (void)ChatTemplate(std::make_shared<const ChatForm>(form), tokenizer);
    notes.insert(notes.end(), own_notes.begin(), own_notes.end());
  } catch (const Error& error) {
    form = ChatForm{"imported"};
    form.problem =
        fmt::format("the imported model's chat template cannot be used: {}", error.what());
    notes.push_back(form.problem);
  }
  if (has_date && form.problem.empty()) {
    notes.emplace_back("the chat template writes the date: prompts will have that of this import");
  }
  form.jinja = *jinja;
  // Others would be added to the vocabulary by whoever reads an export.
  for (const auto& [name, token] : tokens) {
    if (ids.contains(token)) form.jinja_tokens[name] = token;
  }
  return form;
}

}  // namespace tessera
