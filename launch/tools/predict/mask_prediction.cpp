#include <fmt/format.h>

#include "core/error.h"
#include "launch/data/datasets/labeled_lines.h"
#include "launch/support/text/json.h"
#include "launch/tools/predict/file_prediction.h"
#include "launch/tools/predict/predict.h"
#include "launch/tools/predict/text_sample.h"

namespace tessera {
namespace {

class MaskPrediction final : public FilePrediction {
 public:
  MaskPrediction(const ModelConfig& config, const Tokenizer& tokenizer,
                 const FilePredictionOptions& options)
      : tokenizer_(tokenizer), format_(options.format), top_(options.top) {
    for_each_text_line(options.input, [&](const LabeledLine& line) {
      try {
        require(!line.text_pair, "has a text_pair, but masks are filled in single texts");
        Sample sample = sample_of_text(tokenizer, config, std::string(line.text));
        require(std::ssize(sample.tokens) <= config.seq_length,
                "has {} tokens, including special tokens, but the model supports at most {} "
                "(model.seq_length): shorten it",
                sample.tokens.size(), config.seq_length);
        std::vector<int32_t> places = masked_places(sample, tokenizer, quote(line.text));
        texts_.push_back({std::move(sample), std::move(places)});
      } catch (const Error& error) {
        fail("{}:{}: {}", options.input, line.number, error.what());
      }
      numbers_.push_back(line.number);
    });
  }

  int64_t size() const override { return std::ssize(texts_); }

  std::string header() const override {
    return format_ == PredictionFormat::jsonl ? "" : "line\tmask\ttoken\tprobability\n";
  }

  std::string lines(TextModel& model, Range texts) const override {
    const auto first = static_cast<size_t>(texts.begin), count = static_cast<size_t>(texts.size());
    const auto found =
        fill_masks(model, std::span(texts_).subspan(first, count), top_, tokenizer_.vocab_size());
    std::string text;
    for (size_t i = 0; i < count; ++i) {
      if (format_ == PredictionFormat::jsonl) {
        text += json_of(texts_[first + i], found[i]);
      } else {
        text += columns_of(numbers_[first + i], found[i]);
      }
    }
    return text;
  }

 private:
  using Candidates = std::vector<std::vector<Candidate>>;

  std::string columns_of(int64_t number, const Candidates& found) const {
    std::string text;
    for (size_t mask = 0; mask < found.size(); ++mask) {
      for (const Candidate& candidate : found[mask]) {
        text += fmt::format("{}\t{}\t{}\t{:.6g}\n", number, mask + 1,
                            tokenizer_.token_text(candidate.token), candidate.probability);
      }
    }
    return text;
  }

  std::string json_of(const MaskedText& text, const Candidates& found) const {
    std::vector<int32_t> filled = text.sample.tokens;
    Json masks = Json::array();
    for (size_t mask = 0; mask < found.size(); ++mask) {
      filled[static_cast<size_t>(text.places[mask])] = found[mask].front().token;
      Json candidates = Json::array();
      for (const Candidate& candidate : found[mask]) {
        candidates.push_back({{"token", tokenizer_.token_text(candidate.token)},
                              {"probability", candidate.probability}});
      }
      masks.push_back(candidates);
    }
    // A byte-level token may be part of a character.
    return Json{{"text", tokenizer_.decode(filled)}, {"masks", masks}}.dump(
               -1, ' ', false, Json::error_handler_t::replace) +
           "\n";
  }

  const Tokenizer& tokenizer_;
  PredictionFormat format_;
  int64_t top_;
  std::vector<MaskedText> texts_;
  std::vector<int64_t> numbers_;  ///< of the texts' lines
};

}  // namespace

std::unique_ptr<const FilePrediction> mask_prediction(const ModelConfig& config,
                                                      const Tokenizer& tokenizer,
                                                      const FilePredictionOptions& options) {
  return std::make_unique<const MaskPrediction>(config, tokenizer, options);
}

}  // namespace tessera
