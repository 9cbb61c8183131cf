#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace tessera {

/// The specification (tokenizer_spec.h) of the tokenizer in a folder written by save_pretrained():
/// for the first of these that exists, or nullopt.
///
///   tokenizer.json               says all of itself
///   vocab.txt                    in lower case unless tokenizer_config.json has "do_lower_case":
///                                false
///   vocab.json with merges.txt
///   *.model                      SentencePiece's
///
/// Throws for a setting next to the last three that a specification cannot express and that would
/// produce other tokens (accents, Chinese characters, a space before a text, added tokens), naming
/// it. Also throws for two *.model.
std::optional<std::string> folder_tokenizer(const std::filesystem::path& folder);

}  // namespace tessera
