#pragma once

#include <memory>
#include <string>

#include "launch/support/text/json.h"
#include "launch/tokenizers/tokenizer.h"

namespace tessera {

/// The tokenizer of a tokenizer.json, as the Python package `tokenizers` writes it: GPT-2's
/// byte-level BPE, or BERT's WordPiece. `path` is that file, or the folder that holds it. Post-
/// processors that only put special tokens around a text are passed over, as encode() adds none.
/// Throws, naming the setting, if the file asks for anything that would change tokens and that
/// Tessera does not do.
std::unique_ptr<Tokenizer> read_huggingface_tokenizer(const std::string& path);

/// The same of the file's value; `source` names it in messages.
std::unique_ptr<Tokenizer> huggingface_tokenizer(const Json& json, const std::string& source);

}  // namespace tessera
