#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launch/data/datasets/label_reader.h"

namespace tessera {

/// One line of a file of labeled texts.
struct LabeledLine {
  int64_t number = 0;  ///< from 1, including a header
  std::string_view text = {};
  std::optional<std::string_view> text_pair = {};  ///< in all lines of a file or in none
  int32_t label = 0;                               ///< of a single label
  std::span<const float> values = {};  ///< otherwise: 1 or 0 for each label, or the number
};

/// Calls `visit` for each line of a UTF-8 file of labeled texts, in order. The views are valid
/// only during the call. The file name's extension selects the format:
///
///     .jsonl   an object per line: {"text": "...", "label": 1}, optionally with "text_pair"
///     .tsv     a header line with the columns text, label and optionally text_pair, in any order,
///              separated by tabs; then one text per line. There is no quoting: quotation marks are
///              text, and text contains neither tabs nor line ends.
///
/// A label is an integer, or a name if `labels` has names; with regression it is a number. With
/// multi-label classification, the field or column is `labels`: a list in .jsonl, labels separated
/// by | in .tsv, and empty for a text without any. Other fields or columns are errors,
/// which catches misspellings; so are empty lines and lines of more than 16 MiB. Keeps one line in
/// memory. Throws, naming file and line, what was found and what is allowed; also throws if
/// `labels` has fewer than two labels, except for regression, or names that are duplicated or not
/// `count` many.
void for_each_labeled_line(const std::string& path, const Labels& labels,
                           const std::function<void(const LabeledLine&)>& visit);

/// Likewise for the texts of a file without their labels, which are not read and may be missing. A
/// file may also be .txt: a text per line.
void for_each_text_line(const std::string& path,
                        const std::function<void(const LabeledLine&)>& visit);

/// Whether the extension is that of a file of labeled texts.
bool is_labeled_file(std::string_view path);

/// The labels in files of labeled texts: names, sorted by their bytes, or numbers. Integers in a
/// .tsv file are numbers if they are exactly 0, 1, 2, …, or if the `count` of classes is given;
/// stars from 1 to 5 are names. Throws as for_each_labeled_line does, and if there are fewer than
/// two. Not for regression.
Labels find_labels(std::span<const std::string> paths,
                   ProblemType type = ProblemType::single_label_classification,
                   std::optional<int64_t> count = {});

}  // namespace tessera
