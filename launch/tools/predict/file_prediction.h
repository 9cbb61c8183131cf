#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/range.h"
#include "launch/config/column_names.h"
#include "launch/support/files/replace.h"
#include "launch/support/text/json.h"
#include "launch/tokenizers/tokenizer.h"
#include "launch/tools/predict/text_model.h"

namespace tessera {

/// The format of a file of predictions.
enum class PredictionFormat : uint8_t { tsv, csv, jsonl, npy };

/// The format of a path, by its extension: .tsv, .csv or .jsonl, or for vectors .jsonl or .npy.
/// Throws for any other extension.
PredictionFormat prediction_format(const std::string& path, bool vectors);

/// The options of a prediction over a file.
struct FilePredictionOptions {
  std::string input;
  ColumnNames columns = {};  ///< of `input`
  PredictionFormat format = PredictionFormat::tsv;
  /// Texts that are too long, which are errors otherwise; of prompts, see truncate_prompt().
  bool truncate = false;
  bool vectors = false;  ///< predictions are vectors of numbers
  int64_t top = 1;       ///< candidates of each mask
  int64_t samples = 1;   ///< texts generated for each prompt, in lines that follow one another
};

/// The prediction for a text, in the form of each format.
struct Prediction {
  Json object = Json::object();                     ///< .jsonl
  std::vector<std::vector<std::string>> rows = {};  ///< .tsv and .csv: cells, usually one row
  std::vector<float> vector = {};                   ///< .npy, and "embedding" of .jsonl
};

/// The texts of a file and how a model predicts for them. In every format but .npy, a prediction
/// comes with what it belongs to: the line of the text and the text, for example.
struct FilePrediction {
  using Predict =
      std::function<std::vector<Prediction>(TextModel& model, std::span<const int64_t> numbers)>;

  PredictionFormat format;
  std::vector<std::string> columns;  ///< the names of the cells of a row
  /// Describes each text: {"line": 3, "text": "..."}, and gives the order of these columns.
  std::vector<Json> inputs = {};
  std::vector<std::string> input_columns = {"line", "text"};
  /// .tsv has only the cells, and an empty line after each text, as files of labeled words.
  bool is_conll = false;
  int64_t width = 0;  ///< of a vector
  /// The texts' numbers in the order in which they are computed; empty if that is the file's.
  std::vector<int64_t> order = {};
  /// Whether the texts at two places of the order, the first of a batch and another, may be
  /// computed together. All may if this is empty.
  std::function<bool(int64_t first, int64_t place)> may_share = {};
  Predict predict = {};  ///< at most model.rows() texts. Collective.

  int64_t size() const { return std::ssize(inputs); }
};

/// The predictions of a classification head for the texts or pairs of a file
/// (for_each_unlabeled_line). `labels` are the labels' names, or empty for numbers. Throws, naming
/// file and line, for a text that cannot be encoded.
///
///     tsv    label and its probability; labels and their probabilities, separated by |; or, for a
///            regression, score
///     jsonl  {"label": "good", "probabilities": {"good": 0.9, "bad": 0.1}}, "labels": [...]
///            instead of "label", or {"score": 2.5}
std::unique_ptr<const FilePrediction> label_prediction(const ModelConfig& config,
                                                       const Tokenizer& tokenizer,
                                                       const std::vector<std::string>& labels,
                                                       const FilePredictionOptions& options);

/// Predictions for the images of a set (open_images()), whose own labels are ignored. Instead of a
/// line and a text, there is the image: its file, or its number from 0.
std::unique_ptr<const FilePrediction> image_prediction(const ModelConfig& config,
                                                       const std::vector<std::string>& labels,
                                                       const FilePredictionOptions& options);

/// The likeliest label of each word of a file (for_each_sentence). Throws like label_prediction(),
/// and if options.truncate: a word without a prediction would be missing.
///
///     tsv    a word, a tab and its label on each line, and an empty line after each sentence
///     csv    line, word, label
///     jsonl  {"tokens": [...], "tags": [...]}
std::unique_ptr<const FilePrediction> word_prediction(const ModelConfig& config,
                                                      const Tokenizer& tokenizer,
                                                      const std::vector<std::string>& labels,
                                                      const FilePredictionOptions& options);

/// The likeliest tokens for the masks in the texts of a file. Throws like label_prediction(), and
/// for a text without a mask.
///
///     tsv    a row per candidate: number of the mask in the text, from 1, token, probability
///     jsonl  {"filled": the text with its likeliest tokens, "masks": for each mask
///            [{"token": "x", "probability": 0.5}, ...]}
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
/// World rank 0, which is the first data rank, writes `output` in the order of the file: with a
/// header in .tsv and .csv, with spaces for tabs and line ends in the cells of .tsv, and with
/// U+FFFD for bytes that are not UTF-8 in .jsonl. The file appears only once it is complete.
/// Throws on all ranks or none, also if it may not `replace` a file. Collective.
void predict_file(const FilePrediction& prediction, TextModel& model, const std::string& output,
                  const PredictionRanks& ranks, Replace replace = Replace::refuse);

}  // namespace tessera
