#include "launch/huggingface/tokenizer_files.h"

#include <algorithm>
#include <utility>

#include "launch/support/text/json.h"
#include "launch/tokenizers/huggingface_bpe.h"
#include "launch/tokenizers/text/byte_alphabet.h"

namespace tessera {
namespace {

constexpr const char* kEndOfText = "<|endoftext|>";

void take_bytes(Vocabulary& vocabulary) {
  for (int byte = 0; byte < 256; ++byte) {
    vocabulary.tokens.push_back(to_alphabet(std::string(1, static_cast<char>(byte))));
  }
  vocabulary.tokens.emplace_back(kEndOfText);
  vocabulary.special = {256};
}

/// Reads the output of Tokenizer::to_json() for a "bpe" or "unigram".
void take_bpe(const Json& json, Vocabulary& vocabulary) {
  vocabulary.bpe = bpe_from_json(JsonObject(json, "the tokenizer"));
  vocabulary.tokens = std::exchange(vocabulary.bpe.tokens, {});
  vocabulary.special = std::exchange(vocabulary.bpe.special, {});
}

void take_wordpiece(const Json& json, Vocabulary& vocabulary) {
  json.at("tokens").get_to(vocabulary.tokens);
  vocabulary.lower_case = json.at("kind") == "wordpiece";
  vocabulary.strip_accents = json.value("strip_accents", vocabulary.lower_case);
  const SpecialTokens& roles = vocabulary.roles;
  for (const auto id : {roles.unknown, roles.start, roles.end, roles.padding, roles.mask}) {
    if (id) vocabulary.special.push_back(*id);
  }
  std::sort(vocabulary.special.begin(), vocabulary.special.end());
}

/// Each token's id.
Json ids_of(const Vocabulary& vocabulary) {
  Json ids = Json::object();
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) ids[vocabulary.tokens[id]] = id;
  return ids;
}

/// The pieces of a unigram model and their scores.
Json pieces_of(const Vocabulary& vocabulary) {
  Json pieces = Json::array();
  for (const double score : vocabulary.bpe.scores) {
    pieces.push_back(Json::array({vocabulary.tokens[pieces.size()], score}));
  }
  return pieces;
}

Json added_tokens(const Vocabulary& vocabulary) {
  Json list = Json::array();
  const BpeDescription& bpe = vocabulary.bpe;
  std::vector<int32_t> ids = vocabulary.special;
  ids.insert(ids.end(), bpe.added.begin(), bpe.added.end());
  std::sort(ids.begin(), ids.end());
  const auto is_in = [](const std::vector<int32_t>& sorted, int32_t id) {
    return std::binary_search(sorted.begin(), sorted.end(), id);
  };
  for (const int32_t id : ids) {
    list.push_back({{"id", id},
                    {"content", vocabulary.tokens[static_cast<size_t>(id)]},
                    {"single_word", is_in(bpe.single_word, id)},
                    {"lstrip", is_in(bpe.strip_left, id)},
                    {"rstrip", is_in(bpe.strip_right, id)},
                    {"normalized", is_in(bpe.normalized, id)},
                    {"special", !is_in(bpe.added, id)}});
  }
  return list;
}

/// [CLS] A [SEP] B [SEP], with token type 1 for the second text.
Json template_processing(const Vocabulary& vocabulary) {
  const Json start = vocabulary.token(vocabulary.roles.start);
  const Json end = vocabulary.token(vocabulary.roles.end);
  const auto special = [](const Json& token, int type) {
    return Json{{"SpecialToken", {{"id", token}, {"type_id", type}}}};
  };
  const auto text = [](const char* name, int type) {
    return Json{{"Sequence", {{"id", name}, {"type_id", type}}}};
  };
  const auto entry = [](const Json& token, int32_t id) {
    return Json{{"id", token}, {"ids", {id}}, {"tokens", {token}}};
  };
  Json tokens = Json::object();
  tokens[start.get<std::string>()] = entry(start, *vocabulary.roles.start);
  tokens[end.get<std::string>()] = entry(end, *vocabulary.roles.end);
  Json single = Json::array({special(start, 0), text("A", 0), special(end, 0)});
  Json pair = single;
  pair.push_back(text("B", 1));
  pair.push_back(special(end, 1));
  return {{"type", "TemplateProcessing"},
          {"single", single},
          {"pair", pair},
          {"special_tokens", tokens}};
}

Json tokenizer_json(const Vocabulary& vocabulary) {
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added_tokens(vocabulary)},
          {"normalizer", nullptr}};
}

}  // namespace

Json Vocabulary::token(std::optional<int32_t> id) const {
  return id ? Json(tokens[static_cast<size_t>(*id)]) : Json(nullptr);
}

Vocabulary vocabulary_of(const Tokenizer& tokenizer) {
  Vocabulary vocabulary;
  vocabulary.end_of_document = tokenizer.end_of_document();
  vocabulary.roles = tokenizer.special();
  const Json json = tokenizer.to_json();
  if (tokenizer.kind() == "byte") {
    take_bytes(vocabulary);
  } else if (tokenizer.kind() == "bpe" || tokenizer.kind() == "unigram") {
    take_bpe(json, vocabulary);
  } else {
    take_wordpiece(json, vocabulary);
  }
  return vocabulary;
}

Json bpe_tokenizer_json(const Vocabulary& vocabulary, bool adds_special) {
  const BpeDescription& bpe = vocabulary.bpe;
  Json json = tokenizer_json(vocabulary);
  json.update(huggingface_bpe_parts(bpe));
  json["post_processor"] = nullptr;
  if (!bpe.characters) {
    json["post_processor"] = {{"type", "ByteLevel"},
                              {"add_prefix_space", true},
                              {"trim_offsets", false},
                              {"use_regex", true}};
  }
  if (adds_special) json["post_processor"] = template_processing(vocabulary);
  Json& model = json["model"];
  if (bpe.is_unigram()) {
    model["vocab"] = pieces_of(vocabulary);
  } else {
    model["vocab"] = ids_of(vocabulary);
    model["merges"] = bpe.merges;
  }
  return json;
}

Json wordpiece_tokenizer_json(const Vocabulary& vocabulary, bool adds_special) {
  Json json = tokenizer_json(vocabulary);
  json["normalizer"] = {{"type", "BertNormalizer"},
                        {"clean_text", true},
                        {"handle_chinese_chars", true},
                        {"strip_accents", vocabulary.strip_accents},
                        {"lowercase", vocabulary.lower_case}};
  json["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
  json["post_processor"] = adds_special ? template_processing(vocabulary) : Json(nullptr);
  json["decoder"] = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
  json["model"] = {{"type", "WordPiece"},
                   {"unk_token", vocabulary.token(vocabulary.roles.unknown)},
                   {"continuing_subword_prefix", "##"},
                   {"max_input_chars_per_word", 100},
                   {"vocab", ids_of(vocabulary)}};
  return json;
}

Json tokenizer_config(const Vocabulary& vocabulary, const std::string& tokenizer_class,
                      int64_t seq_length) {
  Json config = {{"tokenizer_class", tokenizer_class}, {"model_max_length", seq_length}};
  const SpecialTokens& roles = vocabulary.roles;
  const auto name = [&](const char* key, std::optional<int32_t> id) {
    if (id) config[key] = vocabulary.token(id);
  };
  name("unk_token", roles.unknown);
  name("cls_token", roles.start);
  name("sep_token", roles.end);
  name("pad_token", roles.padding);
  name("mask_token", roles.mask);
  name("bos_token", vocabulary.end_of_document);
  name("eos_token", vocabulary.end_of_document);
  if (tokenizer_class == "GPT2Tokenizer") name("unk_token", vocabulary.end_of_document);
  return config;
}

}  // namespace tessera
