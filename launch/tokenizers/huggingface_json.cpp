#include "launch/tokenizers/huggingface_json.h"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "core/error.h"
#include "launch/tokenizers/bpe/bpe_tokenizer.h"
#include "launch/tokenizers/huggingface_part.h"
#include "launch/tokenizers/text/vocabulary_file.h"
#include "launch/tokenizers/wordpiece/wordpiece_tokenizer.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

/// Names a nullable part of the file in messages.
std::string where_part(const std::string& source, const char* key) {
  return fmt::format("{}: \"{}\"", source, key);
}

const Json& part_of(const Json& json, const char* key) {
  static const Json none;
  const auto found = json.find(key);
  return found == json.end() ? none : *found;
}

/// Returns a part, which must have this type.
HuggingFacePart required_part(const Json& json, const char* key, const std::string& source,
                              const std::string& type) {
  const std::string where = where_part(source, key);
  if (part_of(json, key).is_null()) refuse_type(where, "", quote(type));
  HuggingFacePart part(part_of(json, key), where);
  if (part.type() != type) refuse_type(where, part.type(), quote(type));
  return part;
}

/// Throws unless the post-processor only adds special tokens around texts and reports offsets.
void check_post_processor(const Json& json, const std::string& where) {
  if (json.is_null()) return;
  const auto check = [](const HuggingFacePart& part, bool in_sequence) {
    const std::string type = part.type();
    const bool harmless = type == "ByteLevel" || type == "TemplateProcessing" ||
                          type == "BertProcessing" || type == "RobertaProcessing";
    if (harmless || (type == "Sequence" && !in_sequence)) return;
    refuse_type(part.where(), type,
                "\"ByteLevel\", \"TemplateProcessing\", \"BertProcessing\", \"RobertaProcessing\" "
                "or a \"Sequence\" of these");
  };
  const HuggingFacePart part(json, where);
  check(part, false);
  if (part.type() != "Sequence") return;
  for (const Json& item : part.object().list("processors")) {
    check(HuggingFacePart(item, where + ": \"processors\""), true);
  }
}

struct AddedToken {
  std::string text;
  Json id;
  bool strips_left = false;
};

std::vector<AddedToken> added_tokens(const Json& json, const std::string& source) {
  std::vector<AddedToken> tokens;
  if (part_of(json, "added_tokens").is_null()) return tokens;
  for (const Json& item : JsonObject(json, source).list("added_tokens")) {
    const std::string list = where_part(source, "added_tokens");
    const std::string name = JsonObject(item, list).text("content");
    HuggingFacePart part(item, fmt::format("{}: {}", list, quote(name)));
    part.know({"id", "content", "lstrip", "normalized"});
    // Tokens that are not special would be split off before normalization.
    part.must_be("special", {true});
    part.must_be("single_word", {false});
    part.must_be("rstrip", {false});
    part.refuse_others();
    const bool strips_left = part.object().has("lstrip") && part.object().flag("lstrip");
    tokens.push_back({name, part.object().at("id"), strips_left});
  }
  return tokens;
}

/// Returns the model's vocabulary and the added tokens, by id.
std::vector<std::string> all_tokens(const HuggingFacePart& model,
                                    const std::vector<AddedToken>& added,
                                    const std::string& source) {
  NumberedTokens tokens(source);
  tokens.add_all(model.object().object("vocab"));
  for (const AddedToken& token : added) tokens.add(token.text, token.id);
  return tokens.in_order();
}

/// Accepts "LEFT RIGHT", the older form, and ["LEFT", "RIGHT"].
std::vector<std::string> merges_of(const Json& list, const std::string& where) {
  std::vector<std::string> merges;
  merges.reserve(list.size());
  for (const Json& item : list) {
    const bool is_pair =
        item.is_array() && item.size() == 2 && item[0].is_string() && item[1].is_string();
    require(item.is_string() || is_pair, "{}{} must be a string or two strings", where,
            merges.size() + 1);
    merges.push_back(is_pair ? item[0].get<std::string>() + " " + item[1].get<std::string>()
                             : item.get<std::string>());
  }
  return merges;
}

std::unique_ptr<Tokenizer> read_bpe(const Json& json, HuggingFacePart& model,
                                    const std::string& source) {
  model.know({"vocab", "merges", "unk_token", "fuse_unk"});  // no byte is unknown if all are tokens
  model.must_be("dropout", {nullptr, 0.0});
  model.must_be("continuing_subword_prefix", {nullptr, ""});
  model.must_be("end_of_word_suffix", {nullptr, ""});
  model.must_be("byte_fallback", {false});
  model.must_be("ignore_merges", {false});
  model.refuse_others();
  const Json& normalizer = part_of(json, "normalizer");
  if (!normalizer.is_null()) {
    const std::string where = where_part(source, "normalizer");
    refuse_type(where, HuggingFacePart(normalizer, where).type(), "null, with a \"BPE\" model,");
  }
  HuggingFacePart words = required_part(json, "pre_tokenizer", source, "ByteLevel");
  words.know({"add_prefix_space", "trim_offsets"});
  words.must_be("use_regex", {true});
  words.refuse_others();
  HuggingFacePart decoder = required_part(json, "decoder", source, "ByteLevel");
  decoder.know({"add_prefix_space", "trim_offsets", "use_regex"});  // ignored by the decoder
  decoder.refuse_others();

  BpeDescription bpe;
  bpe.tokens_source = source;
  bpe.merges_source = source + ": merge ";
  const std::vector<AddedToken> added = added_tokens(json, source);
  bpe.tokens = all_tokens(model, added, source);
  bpe.merges = merges_of(model.object().list("merges"), bpe.merges_source);
  bpe.add_prefix_space = words.object().flag("add_prefix_space");
  for (const AddedToken& token : added) {
    const auto id = token.id.get<int32_t>();
    bpe.special.push_back(id);
    if (token.strips_left) bpe.strip_left.push_back(id);
  }
  return std::make_unique<BpeTokenizer>(BpeVocabulary(std::move(bpe)));
}

BertCasing casing_of(const Json& json, const std::string& source) {
  HuggingFacePart normalizer = required_part(json, "normalizer", source, "BertNormalizer");
  normalizer.must_be("clean_text", {true});
  normalizer.must_be("handle_chinese_chars", {true});
  normalizer.must_be("strip_accents", {nullptr, true, false});
  normalizer.know({"lowercase"});
  normalizer.refuse_others();
  const bool lower_case = normalizer.object().flag("lowercase");
  const Json& strip = part_of(part_of(json, "normalizer"), "strip_accents");
  return {lower_case, strip.is_null() ? lower_case : strip.get<bool>()};
}

std::unique_ptr<Tokenizer> read_wordpiece(const Json& json, HuggingFacePart& model,
                                          const std::string& source) {
  model.know({"vocab"});
  model.must_be("unk_token", {"[UNK]"});
  model.must_be("continuing_subword_prefix", {kContinuation});
  model.must_be("max_input_chars_per_word", {100});
  model.refuse_others();
  required_part(json, "pre_tokenizer", source, "BertPreTokenizer").refuse_others();
  HuggingFacePart decoder = required_part(json, "decoder", source, "WordPiece");
  decoder.must_be("prefix", {kContinuation});
  decoder.must_be("cleanup", {true});
  decoder.refuse_others();

  const std::vector<AddedToken> added = added_tokens(json, source);
  for (const AddedToken& token : added) {
    const bool is_special = std::find(std::begin(kBertSpecial), std::end(kBertSpecial),
                                      token.text) != std::end(kBertSpecial);
    require(
        is_special && !token.strips_left,
        "{}: {}: with a \"WordPiece\" model only [PAD], [UNK], [CLS], [SEP] and [MASK], without "
        "\"lstrip\", are supported",
        where_part(source, "added_tokens"), quote(token.text));
  }
  return std::make_unique<WordPieceTokenizer>(
      WordPieceVocabulary(all_tokens(model, added, source), source), casing_of(json, source));
}

/// Returns the model's type, which earlier versions of `tokenizers` omitted.
std::string model_type(const HuggingFacePart& model) {
  if (!model.type().empty()) return model.type();
  if (model.object().has("merges")) return "BPE";
  return model.object().has("max_input_chars_per_word") ? "WordPiece" : "";
}

}  // namespace

std::unique_ptr<Tokenizer> huggingface_tokenizer(const Json& json, const std::string& source) {
  HuggingFacePart file(json, source);
  file.must_be("version", {"1.0"});
  file.must_be("truncation", {nullptr});
  file.must_be("padding", {nullptr});
  file.know({"added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder", "model"});
  file.refuse_others();
  check_post_processor(part_of(json, "post_processor"), where_part(source, "post_processor"));
  HuggingFacePart model(file.object().object("model"), where_part(source, "model"));
  const std::string type = model_type(model);
  if (type == "BPE") return read_bpe(json, model, source);
  if (type == "WordPiece") return read_wordpiece(json, model, source);
  refuse_type(model.where(), type, "\"BPE\" or \"WordPiece\"");
}

std::unique_ptr<Tokenizer> read_huggingface_tokenizer(const std::string& path) {
  const std::string file_path =
      fs::is_directory(path) ? (fs::path(path) / "tokenizer.json").string() : path;
  const MappedFile file = open_vocabulary_file(file_path, ',');
  return huggingface_tokenizer(parse_json(file.text(), file_path), file_path);
}

}  // namespace tessera
