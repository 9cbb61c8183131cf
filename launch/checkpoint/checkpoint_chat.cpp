#include "launch/checkpoint/checkpoint_chat.h"

namespace tessera {

std::string chat_attachment(const ChatForm& form) { return to_text(to_json(form)); }

std::shared_ptr<const ChatForm> checkpoint_chat(const Checkpoint& checkpoint) {
  if (!checkpoint.has_attachment(kChatTemplateAttachment)) return nullptr;
  const std::string where = (checkpoint.path() / kChatTemplateAttachment).string();
  const Json json = parse_json(checkpoint.attachment(kChatTemplateAttachment), where);
  return std::make_shared<const ChatForm>(chat_form_from_json(json, where));
}

}  // namespace tessera
