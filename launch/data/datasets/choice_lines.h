#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tessera {

/// The most choices of a question: each is encoded with the whole context.
inline constexpr size_t kMostChoices = 1000;

/// One line of a file of multiple-choice questions.
struct ChoiceLine {
  int64_t number = 0;   ///< from 1
  std::string context;  ///< may be empty
  std::vector<std::string> choices;
  int64_t answer = 0;  ///< the number of the right choice, from 0
};

/// Calls `visit` for each line of a UTF-8 file of multiple-choice questions, in order. The name
/// ends in .jsonl or .json (row_reader.h). A line is an object in HellaSwag's format or a plain
/// one:
///
///     {"ctx": "A man is on a roof. He", "endings": ["sings.", "flies."], "label": 1}
///     {"question": "2 + 2 =", "choices": ["3", "4"], "answer": 1}
///
/// Without "ctx", "ctx_a" and "ctx_b" are joined by a space. "context" is another name for
/// "question". The answer is an integer or its digits as text. Other fields are not read. A
/// question has 2 to kMostChoices choices, none of them empty. Texts are used as they are.
/// Throws, naming file and line, what was found and what is allowed.
void for_each_choice_line(const std::string& path,
                          const std::function<void(const ChoiceLine&)>& visit);

}  // namespace tessera
