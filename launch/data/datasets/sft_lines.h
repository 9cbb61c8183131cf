#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "launch/data/datasets/chat_template.h"
#include "launch/data/datasets/text_fields.h"

namespace tessera {

/// A prompt and its completion, named as in TRL. See text_fields.h.
extern const TextFields kPromptFields;

/// One line of a file for supervised fine-tuning.
struct SftLine {
  int64_t number = 0;                   ///< from 1, including a header
  std::span<const Message> messages{};  ///< the last one is of the assistant
  size_t given = 0;                     ///< messages of the prompt, from which nothing is learned
};

/// Whether the first line of a file has messages. If not, it has a prompt and a completion that
/// are texts, or cannot be read, which its reader reports.
bool has_messages(const std::string& path);

/// Calls `visit` for each line of a UTF-8 file for supervised fine-tuning, in order. The views are
/// valid only during the call. All lines have the same of TRL's formats:
///
///     {"prompt": "...", "completion": "..."}      also as the columns of a .tsv file
///     {"messages": [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}]}
///     {"prompt": [{"role": "user", ...}], "completion": [{"role": "assistant", ...}]}
///
/// A prompt that is a text is a message of the user, such a completion one of the assistant. Roles
/// are those of kRoleNames. Texts must not be empty, and the last message is of the assistant.
/// Other fields are errors. Throws, naming file and line, what was found and what is allowed.
void for_each_sft_line(const std::string& path, const std::function<void(const SftLine&)>& visit);

}  // namespace tessera
