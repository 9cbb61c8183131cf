#pragma once

#include <memory>
#include <string>

#include "launch/support/text/json.h"
#include "launch/tokenizers/tokenizer.h"

namespace tessera {

/// Reads a tokenizer.json of the Python package `tokenizers`: BPE, a unigram model or BERT's
/// WordPiece. `path` is the file or its folder. Ignores post-processors that only add special
/// tokens around a text, because encode() adds none. Throws, naming the setting, if the file
/// requires anything unsupported that would change tokens.
std::unique_ptr<Tokenizer> read_huggingface_tokenizer(const std::string& path);

/// Does the same for parsed JSON; `source` names it in messages.
std::unique_ptr<Tokenizer> huggingface_tokenizer(const Json& json, const std::string& source);

}  // namespace tessera
