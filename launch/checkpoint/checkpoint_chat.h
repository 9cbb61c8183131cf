#pragma once

#include <memory>
#include <string>

#include "launch/checkpoint/checkpoint.h"
#include "launch/config/chat_form.h"

namespace tessera {

/// The attachment with what surrounded the messages that the model learned from, in the format of
/// to_json(const ChatForm&).
inline constexpr const char* kChatTemplateAttachment = "chat_template.json";

/// The bytes of that attachment.
std::string chat_attachment(const ChatForm& form);

/// Null if the model did not learn from messages. Throws, naming the checkpoint, if it is damaged.
std::shared_ptr<const ChatForm> checkpoint_chat(const Checkpoint& checkpoint);

}  // namespace tessera
