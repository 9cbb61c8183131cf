#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "launch/tokenizers/tokenizer.h"

namespace tessera {

struct ImportedTokenizer {
  std::string spec;  ///< as data.tokenizer says it
  std::unique_ptr<Tokenizer> tokenizer;
};

/// The tokenizer of a folder that save_pretrained() wrote, as folder_tokenizer() finds it, or of
/// `spec` (tokenizer_spec.h), if given. One that export_tokenizer() wrote of bytes is "byte" again.
/// Throws, saying how to name one, if there is none or it can not be read.
ImportedTokenizer import_tokenizer(const std::filesystem::path& folder,
                                   const std::optional<std::string>& spec);

}  // namespace tessera
