#include "launch/huggingface/import/chat/import_chat.h"

#include <algorithm>
#include <array>
#include <memory>

#include "core/error.h"
#include "launch/data/datasets/chat_template.h"
#include "launch/huggingface/import/chat/derive_chat_form.h"
#include "launch/huggingface/tokenizer_files.h"
#include "launch/support/files/small_file.h"
#include "launch/support/text/json.h"
#include "launch/support/text/white_space.h"
#include "launch/tokenizers/sentencepiece/sentencepiece_tokenizer.h"
#include "launch/tokenizers/text/bert_text.h"

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

/// Whether a conversation has the tokens of what the template writes of it, which may write more
/// behind the last reply.
bool has_its_tokens(const RenderedChat& check, const ChatTemplate& chat,
                    const Tokenizer& tokenizer) {
  std::vector<Message> messages;
  for (const auto& [role, text] : check.messages) messages.push_back({role, text});
  ChatTokens own;
  if (check.is_prompt) {
    own.tokens = chat.prompt(messages, "a conversation");
  } else {
    chat.encode(messages, "a conversation", own);
  }
  const std::vector<int32_t> theirs = tokenizer.encode_with_special(check.text);
  if (check.is_prompt) return own.tokens == theirs;
  return own.tokens.size() <= theirs.size() &&
         std::equal(own.tokens.begin(), own.tokens.end(), theirs.begin());
}

/// Throws unless transformers is known to split the text beside special tokens as Tessera does:
/// that depends on the class of the tokenizer and its settings.
void check_sentencepiece(const ChatForm& form, const SentencePieceTokenizer& tokenizer,
                         const Json& settings) {
  const auto is = [&](const char* key, const Json& value) {
    return settings.value(key, Json()) == value;
  };
  const auto absorbs = [](const Json& token) {
    return std::ranges::any_of(std::array{"lstrip", "rstrip", "normalized"}, [&](const char* key) {
      return !token.is_object() || (token.contains(key) && token[key] == true);
    });
  };
  const bool is_known =
      tokenizer.is_llama() && is("legacy", false) && !is("add_prefix_space", false) &&
      (is("tokenizer_class", "LlamaTokenizer") || is("tokenizer_class", "LlamaTokenizerFast")) &&
      std::ranges::none_of(settings.value("added_tokens_decoder", Json::object()), absorbs);
  require(
      is_known,
      "how transformers splits text beside special tokens is known for tokenizer.json, and for "
      "SentencePiece models like Llama's with \"legacy\": false in tokenizer_config.json: write "
      "a tokenizer.json with AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR) in Python");
  for (const auto& turn : form.at_start) {
    require(!turn || (turn->before.find_first_of(" \u2581") != 0 && !turn->before.empty()),
            "it may begin a conversation with a space, before which SentencePiece writes another");
  }
}

/// Throws unless conversations have the tokens of what the template writes of them. Where a reply
/// begins, there may be a boundary of tokens that the text does not have.
void check_tokens(const DerivedChat& derived, const ChatTemplate& chat, const Tokenizer& tokenizer,
                  std::vector<std::string>& notes) {
  const auto is_reply = [](const auto& message) { return message.first == Role::assistant; };
  const auto first = std::ranges::find_if(derived.checks, [&](const RenderedChat& check) {
    return std::ranges::any_of(check.messages, is_reply);
  });
  const bool joins = first != derived.checks.end() && !has_its_tokens(*first, chat, tokenizer);
  if (joins) {
    notes.emplace_back(
        "the chat template writes text before a reply that a token of the reply may take in: "
        "prompts have the tokens of transformers, and a reply begins with a token of its own");
  }
  for (const RenderedChat& check : derived.checks) {
    const bool has_boundary = std::ranges::any_of(check.messages, [&](const auto& message) {
      const std::string& text = message.second;
      return is_reply(message) && (joins || trimmed_left(text).size() < text.size());
    });
    require(has_boundary || has_its_tokens(check, chat, tokenizer),
            "its tokens depend on the text around them, as in {}", quote(check.text));
  }
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
  require(count_invalid_utf8(*jinja) == 0, "{} is not valid UTF-8: convert it", file_path.string());
  const std::map<std::string, std::string> tokens = named_tokens_in({&settings, &map});
  const std::map<std::string, int32_t> ids = chat_token_names(tokenizer);
  std::vector<std::string> names;
  for (const auto& [name, id] : ids) names.push_back(name);
  ChatForm form{"imported"};
  std::vector<std::string> own_notes;
  try {
    const std::optional<ChatForm> own = own_form(*jinja, tokens, tokenizer);
    DerivedChat derived{own.value_or(form), {}, {}};
    if (!own) derived = derive_chat_form(*jinja, tokens, names);
    form = derived.form;
    own_notes = derived.notes;
    const auto* sentencepiece = dynamic_cast<const SentencePieceTokenizer*>(&tokenizer);
    const bool is_export = own && !settings.contains("tokenizer_class");  // not of transformers
    if (sentencepiece != nullptr && !is_export) check_sentencepiece(form, *sentencepiece, settings);
    const ChatTemplate chat(std::make_shared<const ChatForm>(form), tokenizer);
    check_tokens(derived, chat, tokenizer, own_notes);
    notes.insert(notes.end(), own_notes.begin(), own_notes.end());
  } catch (const Error& error) {
    form = ChatForm{"imported"};
    form.problem =
        fmt::format("the imported model's chat template cannot be used: {}", error.what());
    notes.push_back(form.problem);
  }
  form.jinja = *jinja;
  // Others would be added to the vocabulary by whoever reads an export.
  for (const auto& [name, token] : tokens) {
    if (ids.contains(token)) form.jinja_tokens[name] = token;
  }
  return form;
}

}  // namespace tessera
