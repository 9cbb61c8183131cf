#pragma once

#include <cstdint>
#include <string_view>

namespace tessera {

/// A choice of what surrounds the messages of a conversation (chat_form.h). `automatic` is the form
/// that the model learned, if it did, otherwise chatml if the tokenizer has its special tokens,
/// otherwise plain.
enum class ChatFormat : uint8_t { automatic, chatml, plain };

/// The name in data.chat_template.
constexpr std::string_view to_string(ChatFormat format) {
  switch (format) {
    case ChatFormat::automatic:
      return "auto";
    case ChatFormat::chatml:
      return "chatml";
    case ChatFormat::plain:
      return "plain";
  }
  return "?";
}

}  // namespace tessera
