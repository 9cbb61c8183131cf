#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "core/error.h"
#include "launch/data/datasets/classification_dataset.h"
#include "launch/data/datasets/labeled_lines.h"
#include "launch/data/images/image_dataset.h"
#include "launch/support/text/json.h"
#include "launch/tools/predict/file_prediction.h"
#include "launch/tools/predict/predict.h"

namespace tessera {
namespace {

/// Overwrites a sample with text or image `i`.
using FillSample = std::function<void(int64_t i, Sample& out)>;

class LabelPrediction final : public FilePrediction {
 public:
  LabelPrediction(const ModelConfig& config, const std::vector<std::string>& labels,
                  PredictionFormat format, int64_t size, FillSample fill)
      : type_(config.problem_type),
        format_(format),
        labels_(labels),
        size_(size),
        fill_(std::move(fill)) {}

  int64_t size() const override { return size_; }

  std::string header() const override {
    if (format_ == PredictionFormat::jsonl) return "";
    switch (type_) {
      case ProblemType::single_label_classification:
        return "label\tprobability\n";
      case ProblemType::multi_label_classification:
        return "labels\tprobabilities\n";
      case ProblemType::regression:
        return "score\n";
    }
    return "";
  }

  std::string lines(TextModel& model, Range texts) const override {
    std::vector<Sample> batch(static_cast<size_t>(texts.size()));
    for (int64_t i = texts.begin; i < texts.end; ++i) {
      fill_(i, batch[static_cast<size_t>(i - texts.begin)]);
    }
    std::string text;
    for (const std::vector<double>& values : predict_labels(model, batch)) {
      text += format_ == PredictionFormat::jsonl ? json_of(values) : columns_of(values);
      text += '\n';
    }
    return text;
  }

 private:
  std::string name_of(size_t label) const {
    return label < labels_.size() ? labels_[label] : std::to_string(label);
  }

  /// A number if labels have no names, as in labeled texts.
  Json json_label(size_t label) const {
    return label < labels_.size() ? Json(labels_[label]) : Json(label);
  }

  static size_t likeliest(const std::vector<double>& values) {
    return static_cast<size_t>(std::ranges::max_element(values) - values.begin());
  }

  static std::vector<size_t> present(const std::vector<double>& values) {
    std::vector<size_t> labels;
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i] > 0.5) labels.push_back(i);
    }
    return labels;
  }

  std::string columns_of(const std::vector<double>& values) const {
    std::string names, probabilities;
    switch (type_) {
      case ProblemType::single_label_classification:
        return fmt::format("{}\t{:.6g}", name_of(likeliest(values)), values[likeliest(values)]);
      case ProblemType::multi_label_classification:
        for (const size_t label : present(values)) {
          const char* separator = probabilities.empty() ? "" : "|";
          names += separator + name_of(label);
          probabilities += fmt::format("{}{:.6g}", separator, values[label]);
        }
        return names + '\t' + probabilities;
      case ProblemType::regression:
        return fmt::format("{:.9g}", values[0]);
    }
    return "";
  }

  std::string json_of(const std::vector<double>& values) const {
    if (type_ == ProblemType::regression) return to_text(Json{{"score", values[0]}});
    Json probabilities = Json::object(), json = Json::object();
    for (size_t i = 0; i < values.size(); ++i) probabilities[name_of(i)] = values[i];
    if (type_ == ProblemType::single_label_classification) {
      json["label"] = json_label(likeliest(values));
    } else {
      json["labels"] = Json::array();
      for (const size_t label : present(values)) json["labels"].push_back(json_label(label));
    }
    json["probabilities"] = probabilities;
    return to_text(json);
  }

  ProblemType type_;
  PredictionFormat format_;
  std::vector<std::string> labels_;
  int64_t size_;
  FillSample fill_;
};

}  // namespace

std::unique_ptr<const FilePrediction> label_prediction(const ModelConfig& config,
                                                       const Tokenizer& tokenizer,
                                                       const std::vector<std::string>& labels,
                                                       const FilePredictionOptions& options) {
  const ClassificationEncoder encoder([&](std::string_view text) { return tokenizer.encode(text); },
                                      tokenizer.traits(), config.seq_length, options.truncate);
  auto texts = std::make_shared<std::vector<Sample>>();
  for_each_text_line(options.input, [&](const LabeledLine& line) {
    const std::string where = fmt::format("{}:{}", options.input, line.number);
    require(!line.text_pair || config.token_types != 1,
            "{}: a pair needs a model with 2 token types, but the model has 1", where);
    encoder.encode(line.text, line.text_pair, where, texts->emplace_back());
  });
  return std::make_unique<const LabelPrediction>(
      config, labels, options.format, std::ssize(*texts),
      [texts](int64_t i, Sample& out) { out = texts->at(static_cast<size_t>(i)); });
}

std::unique_ptr<const FilePrediction> image_prediction(const ModelConfig& config,
                                                       const std::vector<std::string>& labels,
                                                       const FilePredictionOptions& options) {
  const std::shared_ptr<const ImageSet> images = open_images(options.input);
  check_image_format(config, *images, options.input);
  const ImageEncoder encoder(config);
  return std::make_unique<const LabelPrediction>(
      config, labels, options.format, images->size(),
      [images, encoder](int64_t i, Sample& out) { encoder.encode(*images, i, out); });
}

}  // namespace tessera
