#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launch/data/datasets/chat_template.h"
#include "launch/data/datasets/row_reader.h"
#include "launch/support/text/json.h"

namespace tessera {

/// Appends the messages of a list, [{"role": "user", "content": "..."}], or ShareGPT's
/// [{"from": "human", "value": "..."}], whose other fields are not read; their texts are views of
/// `list`. Roles are those of kRoleNames, and texts may be empty. Throws a message that starts
/// with `where` and counts messages from 1: "chats.jsonl:3, message 2", and then `of`, such as " of
/// the prompt".
void add_messages(const Json& list, const std::string& where, std::string_view of,
                  std::vector<Message>& messages);

/// One row of a file of prompts: a text, or the messages of a conversation.
struct PromptLine {
  int64_t number = 0;  ///< from 1, including a header
  std::string_view text;
  std::span<const Message> messages{};
};

/// Calls `visit` for each prompt of a UTF-8 file, in order. The views are valid only during the
/// call. A prompt is a line of a .txt file, or the column `prompt` of a file with columns
/// (row_reader.h), which is a text in all rows or, as in TRL, a list of messages in all rows:
///
///     {"prompt": [{"role": "user", "content": "..."}]}
///
/// Throws, naming file and line, at anything else.
void for_each_prompt(const std::string& path, const std::function<void(const PromptLine&)>& visit,
                     const RowOptions& options = {});

}  // namespace tessera
