#include "launch/tools/generate/target_prediction.h"

#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "launch/data/datasets/row_reader.h"
#include "launch/tokenizers/id_tokenizer.h"

namespace tessera {

std::unique_ptr<const FilePrediction> target_prediction(const ModelConfig& config,
                                                        const Tokenizer& tokenizer,
                                                        const TargetOptions& options,
                                                        const FilePredictionOptions& file) {
  auto prediction = std::make_unique<FilePrediction>(FilePrediction{file.format, {"target"}});
  prediction->input_columns = {};
  const auto sample_of = is_none(tokenizer) ? source_sample_of_ids : source_sample;
  const auto copies = static_cast<size_t>(file.samples);
  const auto samples = std::make_shared<std::vector<Sample>>();
  const auto add = [&](std::string_view source, int64_t number) {
    prediction->inputs.insert(prediction->inputs.end(), copies, Json::object());
    samples->insert(samples->end(), copies,
                    sample_of(config, tokenizer, source, file.truncate,
                              fmt::format("{}:{}", file.input, number)));
  };
  if (file.input.ends_with(".txt")) {
    for_each_txt_line(file.input, {file.columns}, add);
  } else {
    RowReader rows(file.input, {{"source"}}, {file.columns});
    while (rows.next()) add(rows.text("source"), rows.number());
  }
  require(!samples->empty(), "{}: there is no text", file.input);
  prediction->predict = [samples, &tokenizer, options](TextModel& model,
                                                       std::span<const int64_t> numbers) {
    const auto sources =
        std::span(*samples).subspan(static_cast<size_t>(numbers[0]), numbers.size());
    std::vector<Prediction> found;
    for (Target& target : generate_targets(model, tokenizer, sources, options, numbers[0])) {
      found.push_back({{{"target", target.text}}, {{target.text}}});
    }
    return found;
  };
  return prediction;
}

}  // namespace tessera
