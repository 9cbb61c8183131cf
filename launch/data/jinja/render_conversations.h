#pragma once

#include <string>
#include <vector>

#include "launch/config/chat_form.h"
#include "launch/config/column_names.h"

namespace tessera {

/// Rows of a file of conversations with tools, as JSON.
struct ToolRows {
  std::vector<std::string> texts, where;
  std::vector<std::string> lists;  ///< columns of messages, of which the last one is learned
};

struct RenderedConversation {
  std::vector<std::string> parts;  ///< what precedes a reply and the reply with its end, in turn
  size_t given = 0;                ///< replies from which nothing is learned
};

/// Writes conversations with tools, tool calls and tool results as the template of an imported
/// model does (render_conversations.py). `names` are those of special tokens that texts may not
/// contain. Throws, naming the row, if a message is none, if the template refuses or leaves out
/// tools, calls or results, or if where a reply begins and ends is not known.
std::vector<RenderedConversation> render_conversations(const ChatForm& form, const ToolRows& rows,
                                                       const ColumnNames& columns,
                                                       const std::vector<std::string>& names);

}  // namespace tessera
