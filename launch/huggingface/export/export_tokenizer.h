#pragma once

#include <map>
#include <string>

#include "launch/tokenizers/tokenizer.h"
#include "models/model_config.h"

namespace tessera {

/// A tokenizer's files in the formats that Hugging Face's libraries read.
struct ExportedTokenizer {
  std::map<std::string, std::string> files;  ///< contents by name
  /// Special tokens in config.json: bos_token_id, eos_token_id, pad_token_id; null if missing. Of
  /// an encoder–decoder also decoder_start_token_id.
  /// Without a tokenizer also cls_token_id, sep_token_id, mask_token_id and unk_token_id, if known.
  Json ids = Json::object();
  std::string note;  ///< how to load it if AutoTokenizer cannot, or that there is none
};

/// Exports the tokenizer that a model of this config was trained with: tokenizer.json and
/// tokenizer_config.json, plus vocab.json and merges.txt, or vocab.txt; for SentencePiece only
/// tokenizer.model; for "none" there are none. They yield the tokenizer's ids, except that special
/// tokens written in a text are recognized. Throws if this kind of tokenizer has no such files.
ExportedTokenizer export_tokenizer(const Tokenizer& tokenizer, const ModelConfig& model);

}  // namespace tessera
