#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/range.h"
#include "launch/support/files/replace.h"
#include "launch/tokenizers/tokenizer.h"
#include "launch/tools/predict/text_model.h"

namespace tessera {

/// The format of a file of predictions.
enum class PredictionFormat : uint8_t { tsv, jsonl, npy };

/// That of a path, by its extension: .tsv or .jsonl, or for vectors .jsonl or .npy. Throws for any
/// other extension.
PredictionFormat prediction_format(const std::string& path, bool vectors);

/// The texts of a file and what a model predicts for them, as lines of an output file.
class FilePrediction {
 public:
  virtual ~FilePrediction() = default;

  /// The number of texts.
  virtual int64_t size() const = 0;

  /// The first line of the output, or "".
  virtual std::string header() const = 0;

  /// The texts' numbers in the order in which they are computed; empty if that is the file's. The
  /// ranges below are places in this order. A prediction with an order of its own has one line per
  /// text.
  virtual std::span<const int64_t> order() const { return {}; }

  /// The texts that are computed together, at most `rows`: one range after the other.
  virtual std::vector<Range> batches(int64_t rows) const;

  /// The output for one of these ranges, at most model.rows() texts. Collective.
  virtual std::string lines(TextModel& model, Range texts) const = 0;
};

/// The header and a line of a file with one text per line. A .tsv file has spaces for tabs and line
/// ends; in a .jsonl file, U+FFFD replaces bytes that are not UTF-8:
///
///     tsv    the name as the header, then the texts
///     jsonl  {"name": "the text"}
std::string text_header(PredictionFormat format, std::string_view name);
std::string text_line(PredictionFormat format, std::string_view name, std::string text);

/// The options of a prediction over a file.
struct FilePredictionOptions {
  std::string input;
  PredictionFormat format = PredictionFormat::tsv;
  /// Texts that are too long, which are errors otherwise; of prompts, see truncate_prompt().
  bool truncate = false;
  bool vectors = false;  ///< predictions are vectors of numbers
  int64_t top = 1;       ///< candidates of each mask
};

/// What a classification head predicts for the texts or pairs of a file (for_each_text_line).
/// `labels` are the labels' names, or empty for numbers. Throws, naming file and line, for a text
/// that cannot be encoded.
///
///     tsv    a header and a line per text: label and its probability; labels and their
///            probabilities, separated by |; or, for a regression, score
///     jsonl  {"label": "good", "probabilities": {"good": 0.9, "bad": 0.1}}, "labels": [...]
///            instead of "label", or {"score": 2.5}
std::unique_ptr<const FilePrediction> label_prediction(const ModelConfig& config,
                                                       const Tokenizer& tokenizer,
                                                       const std::vector<std::string>& labels,
                                                       const FilePredictionOptions& options);

/// The same for the images of a set (open_images()), whose own labels are ignored.
std::unique_ptr<const FilePrediction> image_prediction(const ModelConfig& config,
                                                       const std::vector<std::string>& labels,
                                                       const FilePredictionOptions& options);

/// The likeliest label of each word of a file (for_each_sentence). Throws like label_prediction(),
/// and if options.truncate: a word without a prediction would be missing.
///
///     tsv    a word, a tab and its label on each line, and an empty line after each sentence
///     jsonl  {"tokens": [...], "tags": [...]}
std::unique_ptr<const FilePrediction> word_prediction(const ModelConfig& config,
                                                      const Tokenizer& tokenizer,
                                                      const std::vector<std::string>& labels,
                                                      const FilePredictionOptions& options);

/// The likeliest tokens for the masks in the texts of a file. Throws like label_prediction(), and
/// for a text without a mask.
///
///     tsv    a header and a line per candidate: line of the text, number of the mask in it, from 1,
///            token, probability
///     jsonl  an object per text: {"text": the text with its likeliest tokens, "masks": for each
///            mask [{"token": "x", "probability": 0.5}, ...]}
std::unique_ptr<const FilePrediction> mask_prediction(const ModelConfig& config,
                                                      const Tokenizer& tokenizer,
                                                      const FilePredictionOptions& options);

/// The embeddings of the texts of a file. Throws like label_prediction(), and for pairs.
///
///     jsonl  {"embedding": [0.1, ...]}
///     npy    an array (texts, width) of fp32, in NumPy's format
std::unique_ptr<const FilePrediction> embedding_prediction(const ModelConfig& config,
                                                           const Tokenizer& tokenizer,
                                                           const FilePredictionOptions& options);

/// The ranks that predict: `world`, in which the ranks of `dp` have replicas of the model.
struct PredictionRanks {
  Communicator& world;
  Communicator& dp;
};

/// Predicts for all texts, in batches of at most model.rows(), which the data ranks take in turn.
/// World rank 0, which is the first data rank, writes `output` in the order of the file. It appears
/// only once it is complete. Throws on all ranks or none, also if it may not `replace` a file.
/// Collective.
void predict_file(const FilePrediction& prediction, TextModel& model, const std::string& output,
                  const PredictionRanks& ranks, Replace replace = Replace::refuse);

}  // namespace tessera
