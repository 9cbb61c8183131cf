#pragma once

#include <optional>

#include "launch/config/chat_format.h"
#include "launch/support/text/json.h"

namespace tessera {

/// Key in a checkpoint's extra data: what surrounded the messages that the model learned from,
/// "chatml" or "plain".
inline constexpr const char* kChatTemplateKey = "chat_template";

/// nullopt if the model did not learn from messages.
std::optional<ChatFormat> checkpoint_chat(const Json& extra);

}  // namespace tessera
