#include "launch/tools/generate/target_prediction.h"

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "launch/data/datasets/text_fields.h"
#include "launch/tokenizers/id_tokenizer.h"

namespace tessera {
namespace {

constexpr std::array<std::string_view, 2> kSourceNames = {"source", "target"};
constexpr TextFields kSourceFields = {kSourceNames, 1, "source and target"};

constexpr std::string_view kTargetName = "target";

class TargetPrediction final : public FilePrediction {
 public:
  TargetPrediction(const ModelConfig& config, const Tokenizer& tokenizer,
                   const TargetOptions& options, const FilePredictionOptions& file)
      : tokenizer_(tokenizer), options_(options), format_(file.format) {
    const auto sample_of = is_none(tokenizer) ? source_sample_of_ids : source_sample;
    const auto add = [&](std::string_view source, int64_t number) {
      samples_.push_back(sample_of(config, tokenizer, source, file.truncate,
                                   fmt::format("{}:{}", file.input, number)));
    };
    for_each_first_text(file.input, kSourceFields, add);
    require(!samples_.empty(), "{}: there is no text", file.input);
  }

  int64_t size() const override { return std::ssize(samples_); }

  std::string header() const override { return text_header(format_, kTargetName); }

  std::string lines(TextModel& model, Range texts) const override {
    const auto sources = std::span(samples_).subspan(static_cast<size_t>(texts.begin),
                                                     static_cast<size_t>(texts.size()));
    std::string all;
    for (Target& target : generate_targets(model, tokenizer_, sources, options_, texts.begin)) {
      all += text_line(format_, kTargetName, std::move(target.text));
    }
    return all;
  }

 private:
  const Tokenizer& tokenizer_;
  TargetOptions options_;
  PredictionFormat format_;
  std::vector<Sample> samples_;
};

}  // namespace

std::unique_ptr<const FilePrediction> target_prediction(const ModelConfig& config,
                                                        const Tokenizer& tokenizer,
                                                        const TargetOptions& options,
                                                        const FilePredictionOptions& file) {
  return std::make_unique<const TargetPrediction>(config, tokenizer, options, file);
}

}  // namespace tessera
