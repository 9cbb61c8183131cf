#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "launch/data/datasets/chat_template.h"
#include "launch/data/datasets/row_reader.h"

namespace tessera {

/// One row of a file for supervised fine-tuning.
struct SftLine {
  int64_t number = 0;                   ///< from 1, including a header
  std::span<const Message> messages{};  ///< the last one is of the assistant
  size_t given = 0;                     ///< messages of the prompt, from which nothing is learned
  /// The row in JSON if it has tools, tool calls or tool results, instead of messages, and its
  /// columns with messages, of which the last is learned.
  std::string_view with_tools = {};
  std::span<const std::string_view> lists = {};
};

/// Whether the first row of a file has messages with roles. If not, it has prompts and completions
/// that are texts, or cannot be read, which its reader reports.
bool has_messages(const std::string& path, const ColumnNames& columns = {});

/// Calls `visit` for each row of a file for supervised fine-tuning (row_reader.h), in order. The
/// views are valid only during the call. All rows have the same format: TRL's, Alpaca's or
/// ShareGPT's.
///
///     {"prompt": "...", "completion": "..."}      also as the columns of .csv and .tsv
///     {"instruction": "...", "input": "...", "output": "..."}      likewise; without input, too
///     {"messages": [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}]}
///     {"prompt": [{"role": "user", ...}], "completion": [{"role": "assistant", ...}]}
///     {"conversations": [{"from": "human", "value": "..."}, {"from": "gpt", "value": "..."}]}
///
/// Rows with "role" may have tools, and their messages tool calls and the role "tool"; only
/// render_conversations() checks these.
/// A prompt that is a text is a message of the user, such a completion one of the assistant. An
/// input that is not empty follows its instruction after a line end. Roles are those of kRoleNames;
/// texts must not be empty, and the last message is of the assistant. Throws, naming file and line,
/// what was found and what is allowed.
void for_each_sft_line(const std::string& path, const std::function<void(const SftLine&)>& visit,
                       const RowOptions& options = {});

}  // namespace tessera
