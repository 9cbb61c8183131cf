#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launch/config/chat_form.h"
#include "launch/tokenizers/tokenizer.h"

namespace tessera {

/// The chat template of a folder written by save_pretrained(), chat_template.jinja or
/// "chat_template" in tokenizer_config.json, as a form for `tokenizer`. nullopt if it has none. If
/// it is not of such a form, python3 has no jinja2 to find it (derive_chat_form()), or
/// conversations would have other tokens than in transformers, the form has a `problem`, and
/// `notes` get it, too. Throws if a file is damaged.
std::optional<ChatForm> import_chat_form(const std::filesystem::path& folder,
                                         const Tokenizer& tokenizer,
                                         std::vector<std::string>& notes);

}  // namespace tessera
