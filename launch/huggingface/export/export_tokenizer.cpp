#include "launch/huggingface/export/export_tokenizer.h"

#include "core/error.h"
#include "launch/data/datasets/text_pairs.h"
#include "launch/huggingface/tokenizer_files.h"
#include "launch/support/text/base64.h"
#include "launch/tokenizers/bpe/bpe_description.h"
#include "launch/tokenizers/id_tokenizer.h"
#include "launch/tokenizers/wordpiece/wordpiece_vocabulary.h"
#include "models/architecture.h"

namespace tessera {
namespace {

/// The class that reads tokenizer.json and adds nothing.
constexpr const char* kAnyTokenizer = "PreTrainedTokenizerFast";

std::string pretty(const Json& json) { return json.dump(2) + "\n"; }

/// Whether texts of the model start and end with special tokens.
bool adds_special(const Vocabulary& vocabulary, const ModelConfig& model) {
  return traits_of(model).special_tokens && vocabulary.roles.start && vocabulary.roles.end;
}

void export_bpe(const Vocabulary& vocabulary, const ModelConfig& model, ExportedTokenizer& out) {
  // GPT2Tokenizer has one special token, and adds it to a vocabulary without it.
  const bool is_plain = vocabulary.bpe.is_plain();
  const bool as_gpt2 = is_plain && model.kind == ModelKind::gpt2 &&
                       vocabulary.special.size() == 1 &&
                       vocabulary.token(vocabulary.end_of_document) == "<|endoftext|>";
  Json config =
      tokenizer_config(vocabulary, as_gpt2 ? "GPT2Tokenizer" : kAnyTokenizer, model.seq_length);
  if (!vocabulary.bpe.characters) config["add_prefix_space"] = vocabulary.bpe.add_prefix_space;
  config["clean_up_tokenization_spaces"] = false;
  // A vocab.json and a merges.txt would be read as GPT-2's.
  if (is_plain) {
    out.files["vocab.json"] = bpe_vocabulary_text(vocabulary.tokens);
    out.files["merges.txt"] = bpe_merges_text(vocabulary.bpe.merges);
  }
  out.files["tokenizer.json"] =
      pretty(bpe_tokenizer_json(vocabulary, adds_special(vocabulary, model)));
  out.files["tokenizer_config.json"] = pretty(config);
}

void export_wordpiece(const Vocabulary& vocabulary, const ModelConfig& model,
                      ExportedTokenizer& out) {
  // BertTokenizer would add missing special tokens.
  const SpecialTokens& roles = vocabulary.roles;
  const bool as_bert = model.kind == ModelKind::bert && adds_special(vocabulary, model) &&
                       roles.padding && roles.mask;
  Json config =
      tokenizer_config(vocabulary, as_bert ? "BertTokenizer" : kAnyTokenizer, model.seq_length);
  if (as_bert) {
    config["do_lower_case"] = vocabulary.lower_case;
    config["do_basic_tokenize"] = true;
    config["tokenize_chinese_chars"] = true;
    config["strip_accents"] = vocabulary.strip_accents;
  }
  config["clean_up_tokenization_spaces"] = true;
  out.files["vocab.txt"] = vocabulary_text(vocabulary.tokens);
  out.files["tokenizer.json"] =
      pretty(wordpiece_tokenizer_json(vocabulary, adds_special(vocabulary, model)));
  out.files["tokenizer_config.json"] = pretty(config);
}

void export_sentencepiece(const Tokenizer& tokenizer, ExportedTokenizer& out) {
  const std::string encoded = tokenizer.to_json().at("model").get<std::string>();
  out.files["tokenizer.model"] = from_base64(encoded, "the tokenizer's model");
  out.note =
      "the tokenizer is SentencePiece's own file, tokenizer.model: load it with "
      "sentencepiece.SentencePieceProcessor(model_file=...), whose ids are the model's; "
      "AutoTokenizer has no class for it";
}

/// There are no files; config.json has the ids.
void export_ids(const Tokenizer& tokenizer, ExportedTokenizer& out) {
  for (const auto& [name, id] : dynamic_cast<const IdTokenizer&>(tokenizer).special_ids()) {
    out.ids[name + "_token_id"] = id;
  }
  out.note = "the model has no tokenizer (data.tokenizer: none), so no file of one was written";
}

Json id_or_null(std::optional<int32_t> id) { return id ? Json(*id) : Json(nullptr); }

/// The tokens around the texts of an encoder–decoder, if the tokenizer has them.
void add_ends(const Tokenizer& tokenizer, Json& ids) {
  const std::optional<SequenceEnds> ends = find_sequence_ends(tokenizer);
  if (!ends) return;
  ids["bos_token_id"] = nullptr;
  ids["eos_token_id"] = ends->end;
  ids["decoder_start_token_id"] = ends->start;
  // Without one, transformers cannot shift targets.
  if (ids.at("pad_token_id").is_null()) ids["pad_token_id"] = ends->start;
}

}  // namespace

ExportedTokenizer export_tokenizer(const Tokenizer& tokenizer, const ModelConfig& model) {
  require(tokenizer.vocab_size() <= model.vocab_size,
          "the tokenizer has {} tokens, but model.vocab_size is {}", tokenizer.vocab_size(),
          model.vocab_size);
  ExportedTokenizer out;
  const std::string_view kind = tokenizer.kind();
  out.ids = {{"bos_token_id", id_or_null(tokenizer.end_of_document())},
             {"eos_token_id", id_or_null(tokenizer.end_of_document())},
             {"pad_token_id", id_or_null(tokenizer.special().padding)}};
  if (traits_of(model).objective == Objective::seq2seq) add_ends(tokenizer, out.ids);
  if (kind == "byte" || kind == "bpe" || kind == "unigram") {
    export_bpe(vocabulary_of(tokenizer), model, out);
  } else if (kind == "wordpiece" || kind == "wordpiece-cased") {
    export_wordpiece(vocabulary_of(tokenizer), model, out);
  } else if (kind == "sentencepiece") {
    export_sentencepiece(tokenizer, out);
  } else if (is_none(tokenizer)) {
    export_ids(tokenizer, out);
  } else {
    fail("the tokenizer {} has no form that transformers reads", kind);
  }
  return out;
}

}  // namespace tessera
