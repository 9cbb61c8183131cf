#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launch/data/datasets/label_reader.h"
#include "launch/data/datasets/row_reader.h"

namespace tessera {

/// One row of a file of labeled texts.
struct LabeledLine {
  int64_t number = 0;  ///< of its first line, from 1, including a header
  std::string_view text = {};
  std::optional<std::string_view> text_pair = {};  ///< in all rows of a file or in none
  int32_t label = 0;                               ///< of a single label
  std::span<const float> values = {};  ///< otherwise: 1 or 0 for each label, or the number
};

/// Calls `visit` for each row of a file of labeled texts (row_reader.h), in order. The views are
/// valid only during the call. The columns are `text`, `label` and optionally `text_pair`:
///
///     .jsonl   {"text": "...", "label": 1}
///
/// A label is an integer, or a name if `labels` has names; with regression it is a number. With
/// multi-label classification, the column is `labels`: a list in JSON, or labels separated by |,
/// and empty for a text without any. If the lists of a file are all as long as each other and have
/// nothing but 0 and 1 (or true and false), they are multi-hot: an entry for each label, in order.
/// That also holds for a list that is the text of a .csv or .tsv column. Throws, naming file and
/// line, what was found and what is allowed; also throws if `labels` has fewer than two labels,
/// except for regression, or names that are duplicated or not `count` many.
void for_each_labeled_line(const std::string& path, const Labels& labels,
                           const std::function<void(const LabeledLine&)>& visit,
                           const RowOptions& options = {});

/// Likewise for the texts of a file without their labels, which are not read and may be missing. A
/// file may also be .txt: a text per line.
void for_each_unlabeled_line(const std::string& path,
                             const std::function<void(const LabeledLine&)>& visit,
                             const RowOptions& options = {});

/// The labels in files of labeled texts: names, sorted by their bytes, or numbers. Integers in .csv
/// and .tsv files are numbers if they are exactly 0, 1, 2, …, or if the `count` of classes is
/// given; stars from 1 to 5 are names. Multi-hot labels are numbers. Throws as
/// for_each_labeled_line does, and if there are fewer than two. Not for regression.
Labels find_labels(std::span<const std::string> paths,
                   ProblemType type = ProblemType::single_label_classification,
                   std::optional<int64_t> count = {}, const RowOptions& options = {});

}  // namespace tessera
