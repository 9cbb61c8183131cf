#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// Which labels a file may have: 0 to count − 1, or, where there are names, one of `count` names,
/// which stand for 0 to count − 1 in their order.
struct Labels {
  int64_t count = 0;
  std::vector<std::string> names = {};
};

/// One line of a file of labelled texts.
struct LabelledLine {
  int64_t number = 0;  ///< from 1; a header counts
  std::string_view text;
  std::optional<std::string_view> text_pair;  ///< in all lines of a file or in none
  int32_t label = 0;
};

/// Calls `visit` for each line of a UTF-8 file of labelled texts, in order; the views live until it
/// returns. By the ending of its name a file is
///
///     .jsonl   an object a line: {"text": "...", "label": 1}, with or without "text_pair"
///     .tsv     a header line with the columns text and label, with or without text_pair, in any
///              order and with tabs between; then a line a text. There is no quoting: a quotation
///              mark is text, and text has neither tabs nor ends of lines.
///
/// A label is an integer, or a name where `labels` has names. Any other field or column is an
/// error, so that a misspelt one is not overlooked; so are empty lines, and lines of more than 16
/// MiB. Takes memory for one line at a time. Throws, naming file and line, what was found and what
/// is allowed, and if `labels` are less than two, or names that are not as many or are given twice.
void for_each_labelled_line(const std::string& path, const Labels& labels,
                            const std::function<void(const LabelledLine&)>& visit);

}  // namespace tessera
