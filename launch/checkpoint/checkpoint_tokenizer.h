#pragma once

#include <memory>

#include "launch/checkpoint/checkpoint.h"
#include "launch/tokenizers/tokenizer.h"

namespace tessera {

/// The attachment with a checkpoint's tokenizer, in the format of Tokenizer::to_json().
inline constexpr const char* kTokenizerAttachment = "tokenizer.json";

/// The bytes of that attachment.
std::string tokenizer_attachment(const Tokenizer& tokenizer);

/// The tokenizer that a checkpoint was trained with, read entirely from the checkpoint. Throws,
/// naming the checkpoint, if it is missing or damaged.
std::unique_ptr<Tokenizer> tokenizer_of(const Checkpoint& checkpoint);

}  // namespace tessera
