#pragma once

#include <map>
#include <string>

#include "launch/tokenizers/tokenizer.h"
#include "models/model_config.h"

namespace tessera {

/// A tokenizer's files as Hugging Face's libraries read them.
struct ExportedTokenizer {
  std::map<std::string, std::string> files;  ///< by name: their bytes
  /// What config.json says of special tokens: bos_token_id, eos_token_id, pad_token_id; null where
  /// there is none.
  Json ids = Json::object();
  std::string note;  ///< how to load it, where AutoTokenizer does not
};

/// The files of the tokenizer that a model of this config was trained with: tokenizer.json and
/// tokenizer_config.json, beside vocab.json and merges.txt, or vocab.txt; of SentencePiece
/// tokenizer.model alone. Their ids are the tokenizer's, but that special tokens which are written
/// in a text are themselves. Throws if its kind has no such files.
ExportedTokenizer export_tokenizer(const Tokenizer& tokenizer, const ModelConfig& model);

}  // namespace tessera
