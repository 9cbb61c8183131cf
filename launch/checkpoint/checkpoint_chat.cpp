#include "launch/checkpoint/checkpoint_chat.h"

namespace tessera {

std::optional<ChatFormat> checkpoint_chat(const Json& extra) {
  if (!extra.contains(kChatTemplateKey)) return std::nullopt;
  for (const ChatFormat format : {ChatFormat::chatml, ChatFormat::plain}) {
    if (extra[kChatTemplateKey] == to_string(format)) return format;
  }
  return std::nullopt;
}

}  // namespace tessera
