#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "core/error.h"
#include "launch/checkpoint/run_state.h"
#include "launch/cli/commands.h"
#include "launch/cli/support/query.h"
#include "launch/config/label_names.h"
#include "launch/data/datasets/labeled_words.h"
#include "launch/data/images/image_dataset.h"
#include "launch/support/text/print.h"
#include "launch/tools/predict/predict.h"
#include "models/architecture.h"

namespace tessera {
namespace {

/// The names of a run's labels, or their numbers if it has no names.
std::vector<std::string> names_or_numbers(const RunState& run, int64_t num_labels) {
  std::vector<std::string> names = names_of_labels(run.labels);
  for (auto i = std::ssize(names); i < num_labels; ++i) names.push_back(fmt::format("{}", i));
  return names;
}

/// The number, or a line per label, likeliest first.
void print_labels(const std::vector<double>& values, const ModelConfig& config,
                  const std::vector<std::string>& names) {
  if (config.problem_type == ProblemType::regression) {
    print_out("{:.6g}\n", values[0]);
    return;
  }
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return values[a] > values[b]; });
  for (const size_t label : order) {
    print_out("{:6.2f}%  {}\n", 100.0 * values[label], names[label]);
  }
}

/// Labels the words of a text, which are separated by spaces.
void label_words(const Query& query, const LoadedModel& loaded, bool prints) {
  require(!query.text_pair, "--text-pair is for a model of texts, but the model of {} labels words",
          loaded.path.string());
  require(!query.truncate,
          "--truncate does not apply to words, each of which gets a label: split a long sentence");
  if (!query.ids) require_tokenizer(*loaded.tokenizer, "--text", loaded.path);
  const std::vector<std::string_view> words = words_of(query.text);
  require(!words.empty(), "{} has no words", query.option());
  const ModelConfig& config = loaded.model->config();
  Sample sample;
  WordEncoder(*loaded.tokenizer, config.seq_length, /*truncate=*/false)
      .encode(words, {}, query.option(), sample);
  const std::vector<int32_t> found = predict_word_labels(*loaded.model, {&sample, 1})[0];
  const std::vector<std::string> names = names_or_numbers(loaded.run, config.num_labels);
  for (size_t i = 0; prints && i < words.size(); ++i) {
    print_exactly(fmt::format("{}\t{}\n", words[i], names[static_cast<size_t>(found[i])]));
  }
}

Sample sample_of_image(const std::string& path, const ModelConfig& config) {
  const ImageEncoder encoder(config);
  Pixels pixels = read_image_file(path, config.num_channels);
  encoder.resize(pixels);
  Sample sample;
  encoder.encode(pixels, sample);
  return sample;
}

void classify(const Query& query, const LoadedModel& loaded, bool prints) {
  const ModelConfig& config = loaded.model->config();
  if (traits_of(config).token_labels) return label_words(query, loaded, prints);
  require_objective(config, Objective::classification, loaded.path.string());
  require(config.has_images() || query.image.empty(),
          "--image is for a model of images, but the model of {} sees texts: give one with --text",
          loaded.path.string());
  require(!config.has_images() || !query.image.empty(),
          "the model of {} classifies images: give one with --image, or a set of them with --input",
          loaded.path.string());
  require(!query.text_pair || config.token_types != 1,
          "--text-pair needs a model with 2 token types, but the model of {} has 1",
          loaded.path.string());
  const Sample sample =
      config.has_images() ? sample_of_image(query.image, config) : sample_of(query, loaded);
  const std::vector<double> values = predict_labels(*loaded.model, {&sample, 1})[0];
  if (prints) print_labels(values, config, names_or_numbers(loaded.run, config.num_labels));
}

std::unique_ptr<const FilePrediction> open_classified_file(const LoadedModel& loaded,
                                                           const FilePredictionOptions& options) {
  const ModelConfig& config = loaded.model->config();
  const std::vector<std::string> labels = names_of_labels(loaded.run.labels);
  if (traits_of(config).token_labels) {
    return word_prediction(config, *loaded.tokenizer, labels, options);
  }
  require_objective(config, Objective::classification, loaded.path.string());
  if (config.has_images()) return image_prediction(config, labels, options);
  return label_prediction(config, *loaded.tokenizer, labels, options);
}

void add_classify_options(CLI::App& command, Query& query) {
  command
      .add_option("--text-pair", query.text_pair, "The second text of a pair; its ids with --ids")
      ->type_name("TEXT")
      ->excludes(command.get_option("--input"));
  add_truncate_option(command, query);
  CLI::Option* const image =
      command
          .add_option("--image", query.image,
                      "The PNG or JPEG file of an image, for a model of images; --input is then a "
                      "set of images, as in data.train")
          ->type_name("FILE");
  for (const char* other : {"--text", "--ids", "--text-pair", "--input", "--truncate"}) {
    image->excludes(command.get_option(other));
  }
}

}  // namespace

void add_classify_command(CLI::App& app, int& exit_code) {
  QueryCommand classifying{"classify", "Classify a text or an image, or all of a file", "The text"};
  classifying.add_options = add_classify_options;
  classifying.open_file = open_classified_file;
  classifying.answer = classify;
  add_query_command(app, exit_code, classifying);
}

}  // namespace tessera
