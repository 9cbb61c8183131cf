#pragma once

#include <cstdint>

namespace tessera {

/// How the messages of a conversation are told apart (launch/data/datasets/chat_template.h).
/// `automatic` is chatml if the tokenizer has its special tokens, otherwise plain.
enum class ChatFormat : uint8_t { automatic, chatml, plain };

}  // namespace tessera
