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

/// A sentence of words, each with a label.
struct LabeledSentence {
  int64_t number = 0;  ///< of its first line in the file, from 1
  std::vector<std::string_view> words;
  std::vector<int32_t> labels;  ///< one per word; empty if they are not read
};

/// Calls `visit` for each sentence of a UTF-8 file of words with labels, in order. The views are
/// valid only during the call. The file name's extension selects the format:
///
///     .tsv     CoNLL: a word, a tab and its label on each line, without a header or quoting. Empty
///              lines separate sentences, and so do lines that start with -DOCSTART-.
///     .jsonl   {"tokens": ["a", "word"], "tags": ["O", "B-X"]}; also .json (row_reader.h)
///
/// Labels are as in for_each_labeled_line. Throws, naming file and line, what was found and what is
/// allowed.
void for_each_labeled_sentence(const std::string& path, const Labels& labels,
                               const std::function<void(const LabeledSentence&)>& visit,
                               const RowOptions& options = {});

/// Likewise for the words without their labels, which are not read and may be missing. A file may
/// also be .txt: a sentence per line, of words separated by spaces.
void for_each_sentence(const std::string& path,
                       const std::function<void(const LabeledSentence&)>& visit,
                       const RowOptions& options = {});

/// The words of a text: the parts between spaces.
std::vector<std::string_view> words_of(std::string_view text);

/// The labels of the words in files, as find_labels() finds those of texts.
Labels find_word_labels(std::span<const std::string> paths, std::optional<int64_t> count = {},
                        const RowOptions& options = {});

}  // namespace tessera
