#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

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

}  // namespace tessera
