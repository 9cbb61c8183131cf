#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace tessera {

/// The specification (tokenizer_spec.h) of the tokenizer in a folder that save_pretrained() wrote:
/// of the first of these that is there, or nothing.
///
///   tokenizer.json               says all of itself
///   vocab.txt                    in lower case unless tokenizer_config.json has "do_lower_case":
///                                false
///   vocab.json with merges.txt
///   *.model                      SentencePiece's
///
/// Throws, naming it, for a setting beside the last three that a specification can not say and that
/// would make other tokens (accents, Chinese characters, a space before a text, added tokens), and
/// for two *.model.
std::optional<std::string> folder_tokenizer(const std::filesystem::path& folder);

}  // namespace tessera
