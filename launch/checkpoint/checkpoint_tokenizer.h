#pragma once

#include <memory>

#include "launch/checkpoint/checkpoint.h"
#include "launch/tokenizers/tokenizer.h"

namespace tessera {

/// The attachment of a checkpoint that holds its tokenizer, as Tokenizer::to_json() makes it.
inline constexpr const char* kTokenizerAttachment = "tokenizer.json";

/// The bytes of that attachment.
std::string tokenizer_attachment(const Tokenizer& tokenizer);

/// The tokenizer that a checkpoint was trained with: all of it is in the checkpoint. Throws, naming
/// the checkpoint, if there is none, or it is damaged.
std::unique_ptr<Tokenizer> tokenizer_of(const Checkpoint& checkpoint);

}  // namespace tessera
