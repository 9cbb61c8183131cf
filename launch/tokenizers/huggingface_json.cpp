#include "launch/tokenizers/huggingface_json.h"

#include <algorithm>
#include <iterator>

#include "core/error.h"
#include "launch/tokenizers/bpe/bpe_tokenizer.h"
#include "launch/tokenizers/huggingface_bpe.h"
#include "launch/tokenizers/huggingface_part.h"
#include "launch/tokenizers/huggingface_vocabulary.h"
#include "launch/tokenizers/text/vocabulary_file.h"
#include "launch/tokenizers/wordpiece/wordpiece_tokenizer.h"

namespace tessera {
namespace {

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

  const std::vector<HuggingFaceToken> added = read_added_tokens(json, source);
  for (const HuggingFaceToken& token : added) {
    const bool is_known = std::find(std::begin(kBertSpecial), std::end(kBertSpecial), token.text) !=
                          std::end(kBertSpecial);
    const bool is_bare = !token.strip_left && !token.strip_right && !token.single_word;
    require(is_known && is_bare && token.special,
            "{}: {}: with a \"WordPiece\" model only [PAD], [UNK], [CLS], [SEP] and [MASK], "
            "\"special\" "
            "and without \"lstrip\", \"rstrip\" and \"single_word\", are supported",
            where_part(source, "added_tokens"), quote(token.text));
  }
  return std::make_unique<WordPieceTokenizer>(
      WordPieceVocabulary(all_tokens(model, added, source), source), casing_of(json, source));
}

/// Returns the model's type, which earlier versions of `tokenizers` omitted.
std::string model_type(const HuggingFacePart& model) {
  if (!model.type().empty()) return model.type();
  if (model.object().has("merges")) return "BPE";
  if (model.object().has("unk_id")) return "Unigram";
  return model.object().has("max_input_chars_per_word") ? "WordPiece" : "";
}

}  // namespace

std::unique_ptr<Tokenizer> huggingface_tokenizer(const Json& json, const std::string& source) {
  require(!json.is_object() || !json.contains("kind"),
          "{} is the tokenizer of a checkpoint or dataset of Tessera: name it tessera:{}", source,
          source);
  HuggingFacePart file(json, source);
  file.must_be("version", {"1.0"});
  file.must_be("truncation", {nullptr});
  file.must_be("padding", {nullptr});
  file.know({"added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder", "model"});
  file.refuse_others();
  check_post_processor(part_of(json, "post_processor"), where_part(source, "post_processor"));
  HuggingFacePart model(file.object().object("model"), where_part(source, "model"));
  const std::string type = model_type(model);
  if (type == "BPE") {
    return std::make_unique<BpeTokenizer>(BpeVocabulary(read_huggingface_bpe(json, model, source)));
  }
  if (type == "Unigram") {
    return std::make_unique<BpeTokenizer>(
        BpeVocabulary(read_huggingface_unigram(json, model, source)));
  }
  if (type == "WordPiece") return read_wordpiece(json, model, source);
  refuse_type(model.where(), type, "\"BPE\", \"Unigram\" or \"WordPiece\"");
}

std::unique_ptr<Tokenizer> read_huggingface_tokenizer(const std::string& path) {
  const std::string file_path = tokenizer_file_of(path);
  const MappedFile file = open_vocabulary_file(file_path, ',');
  return huggingface_tokenizer(parse_json(file.text(), file_path), file_path);
}

}  // namespace tessera
