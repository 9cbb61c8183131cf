#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.h"
#include "launch/data/datasets/classification_dataset.h"
#include "launch/data/datasets/labeled_lines.h"
#include "launch/tools/predict/file_prediction.h"
#include "launch/tools/predict/predict.h"

namespace tessera {
namespace {

/// The header of version 1.0 of NumPy's format, whose length is a multiple of 64.
std::string npy_header(int64_t rows, int64_t columns) {
  std::string text =
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, columns);
  constexpr size_t kPrefix = 10;  // magic, version and length
  text.append((64 - (kPrefix + text.size() + 1) % 64) % 64, ' ');
  text += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(text.size() % 256);
  header += static_cast<char>(text.size() / 256);
  return header + text;
}

class EmbeddingPrediction final : public FilePrediction {
 public:
  EmbeddingPrediction(const ModelConfig& config, const Tokenizer& tokenizer,
                      const FilePredictionOptions& options)
      : format_(options.format), width_(config.hidden_size) {
    const ClassificationEncoder encoder(
        [&](std::string_view text) { return tokenizer.encode(text); }, tokenizer.traits(),
        config.seq_length, options.truncate);
    for_each_text_line(options.input, [&](const LabeledLine& line) {
      const std::string where = fmt::format("{}:{}", options.input, line.number);
      require(!line.text_pair,
              "{}: there is a text_pair, but an embedding is of one text: leave it out", where);
      encoder.encode(line.text, {}, where, texts_.emplace_back());
    });
  }

  int64_t size() const override { return std::ssize(texts_); }

  std::string header() const override {
    return format_ == PredictionFormat::npy ? npy_header(size(), width_) : "";
  }

  std::string lines(TextModel& model, Range texts) const override {
    const auto first = static_cast<size_t>(texts.begin), count = static_cast<size_t>(texts.size());
    const auto found = embed_texts(model, std::span(texts_).subspan(first, count)).span<float>();
    if (format_ == PredictionFormat::npy) {
      return {reinterpret_cast<const char*>(found.data()), found.size_bytes()};
    }
    std::string text;
    const auto width = static_cast<size_t>(width_);
    for (size_t i = 0; i < count; ++i) {
      text += fmt::format("{{\"embedding\": [{:.9g}]}}\n",
                          fmt::join(found.subspan(i * width, width), ", "));
    }
    return text;
  }

 private:
  PredictionFormat format_;
  int64_t width_;
  std::vector<Sample> texts_;
};

}  // namespace

std::unique_ptr<const FilePrediction> embedding_prediction(const ModelConfig& config,
                                                           const Tokenizer& tokenizer,
                                                           const FilePredictionOptions& options) {
  return std::make_unique<const EmbeddingPrediction>(config, tokenizer, options);
}

}  // namespace tessera
