#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "launch/support/text/json.h"
#include "launch/tokenizers/tokenizer.h"

namespace tessera {

struct ImportedTokenizer {
  std::string spec;  ///< as in data.tokenizer
  std::unique_ptr<Tokenizer> tokenizer;
};

/// The tokenizer of a folder written by save_pretrained(), as found by folder_tokenizer(), or of
/// `spec` (tokenizer_spec.h), if given. A byte tokenizer written by export_tokenizer() becomes
/// "byte" again. Throws, saying how to name one, if there is none or it cannot be read.
ImportedTokenizer import_tokenizer(const std::filesystem::path& folder,
                                   const std::optional<std::string>& spec);

/// "none", for a model whose tokens are ids 0 to vocab_size - 1. Its special tokens are those of
/// config.json ("eos_token_id" and so on) that are such ids, and `special`, which takes precedence.
/// Throws if `special` has an unknown name or another id.
ImportedTokenizer import_ids(const Json& config, int64_t vocab_size, SpecialTokenIds special);

}  // namespace tessera
