#include <fmt/format.h>

#include "core/error.h"
#include "launch/data/datasets/classification_dataset.h"
#include "launch/data/datasets/labeled_words.h"
#include "launch/support/text/json.h"
#include "launch/tools/predict/file_prediction.h"
#include "launch/tools/predict/predict.h"

namespace tessera {
namespace {

class WordPrediction final : public FilePrediction {
 public:
  WordPrediction(const ModelConfig& config, const Tokenizer& tokenizer,
                 const std::vector<std::string>& labels, const FilePredictionOptions& options)
      : format_(options.format), labels_(labels) {
    require(!options.truncate,
            "--truncate does not apply to words, each of which gets a label: split long sentences");
    const WordEncoder encoder(tokenizer, config.seq_length, /*truncate=*/false);
    for_each_sentence(options.input, [&](const LabeledSentence& sentence) {
      const std::string where = fmt::format("{}:{}", options.input, sentence.number);
      encoder.encode(sentence.words, {}, where, samples_.emplace_back());
      words_.emplace_back(sentence.words.begin(), sentence.words.end());
    });
  }

  int64_t size() const override { return std::ssize(samples_); }

  std::string header() const override { return ""; }

  std::string lines(TextModel& model, Range texts) const override {
    const auto first = static_cast<size_t>(texts.begin), count = static_cast<size_t>(texts.size());
    const auto found = predict_word_labels(model, std::span(samples_).subspan(first, count));
    std::string text;
    for (size_t i = 0; i < count; ++i) {
      const std::vector<std::string>& words = words_[first + i];
      text += format_ == PredictionFormat::jsonl ? json_of(words, found[i])
                                                 : columns_of(words, found[i]);
    }
    return text;
  }

 private:
  /// A sentence in the form of a training file.
  std::string columns_of(const std::vector<std::string>& words,
                         const std::vector<int32_t>& found) const {
    std::string text;
    for (size_t i = 0; i < words.size(); ++i) {
      const auto label = static_cast<size_t>(found[i]);
      text += fmt::format("{}\t{}\n", words[i],
                          label < labels_.size() ? labels_[label] : std::to_string(label));
    }
    return text + "\n";
  }

  std::string json_of(const std::vector<std::string>& words,
                      const std::vector<int32_t>& found) const {
    Json tags = Json::array();
    for (const int32_t number : found) {
      const auto label = static_cast<size_t>(number);
      tags.push_back(label < labels_.size() ? Json(labels_[label]) : Json(label));
    }
    return to_text(Json{{"tokens", words}, {"tags", tags}}) + "\n";
  }

  PredictionFormat format_;
  std::vector<std::string> labels_;
  std::vector<Sample> samples_;
  std::vector<std::vector<std::string>> words_;
};

}  // namespace

std::unique_ptr<const FilePrediction> word_prediction(const ModelConfig& config,
                                                      const Tokenizer& tokenizer,
                                                      const std::vector<std::string>& labels,
                                                      const FilePredictionOptions& options) {
  return std::make_unique<const WordPrediction>(config, tokenizer, labels, options);
}

}  // namespace tessera
