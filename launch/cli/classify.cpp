#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "launch/checkpoint/checkpoint_labels.h"
#include "launch/cli/commands.h"
#include "launch/cli/support/command_line.h"
#include "launch/cli/support/file_options.h"
#include "launch/cli/support/loaded_model.h"
#include "launch/cli/support/process.h"
#include "launch/data/datasets/classification_dataset.h"
#include "launch/data/datasets/labeled_words.h"
#include "launch/data/images/image_dataset.h"
#include "launch/support/text/print.h"
#include "launch/tokenizers/id_tokenizer.h"
#include "launch/tools/predict/predict.h"
#include "launch/tools/predict/text_model.h"
#include "models/architecture.h"
#include "parallel/communicators/exchange.h"

namespace tessera {
namespace {

struct ClassifyOptions {
  std::string checkpoint;
  bool ema = false;  ///< whether to use the averaged weights
  std::string text;
  std::optional<std::string> text_pair;
  std::string image;  ///< of a model of images, instead of a text
  bool ids = false;   ///< whether the texts are ids
  bool truncate = false;
  FileOptions file;  ///< instead of a text
  DeviceOptions devices;
};

/// The names of a run's labels, or their numbers if it has no names.
std::vector<std::string> names_of_labels(const Json& extra, int64_t num_labels) {
  std::vector<std::string> names = checkpoint_labels(extra);
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
void label_words(const ClassifyOptions& options, const LoadedModel& loaded, Communicator& world) {
  require(!options.text_pair,
          "--text-pair is for a model of texts, but the model of {} labels words",
          loaded.path.string());
  require(!options.truncate,
          "--truncate does not apply to words, each of which gets a label: split a long sentence");
  if (!options.ids) require_tokenizer(*loaded.tokenizer, "--text", loaded.path);
  const std::vector<std::string_view> words = words_of(options.text);
  require(!words.empty(), "{} has no words", options.ids ? "--ids" : "--text");
  const ModelConfig& config = loaded.model->config();
  Sample sample;
  WordEncoder(*loaded.tokenizer, config.seq_length, /*truncate=*/false)
      .encode(words, {}, options.ids ? "--ids" : "--text", sample);
  const std::vector<int32_t> found = predict_word_labels(*loaded.model, {&sample, 1})[0];
  const std::vector<std::string> names = names_of_labels(loaded.extra, config.num_labels);
  if (world.rank() != 0) return;
  for (size_t i = 0; i < words.size(); ++i) {
    print_exactly(fmt::format("{}\t{}\n", words[i], names[static_cast<size_t>(found[i])]));
  }
}

void classify_file(const ClassifyOptions& options, const LoadedModel& loaded, Communicator& world) {
  const ModelConfig& config = loaded.model->config();
  FilePredictionOptions how;
  how.truncate = options.truncate;
  const auto open =
      [&](const FilePredictionOptions& opened) -> std::unique_ptr<const FilePrediction> {
    const std::vector<std::string> labels = checkpoint_labels(loaded.extra);
    if (traits_of(config).token_labels) {
      return word_prediction(config, *loaded.tokenizer, labels, opened);
    }
    require_objective(config, Objective::classification, loaded.path.string());
    if (config.has_images()) return image_prediction(config, labels, opened);
    return label_prediction(config, *loaded.tokenizer, labels, opened);
  };
  predict_for_file(loaded, options.file, how, open, world);
}

void classify(const ClassifyOptions& options, Communicator& world) {
  const LoadedModel loaded = load_model(options.checkpoint, options.ema, options.devices, world,
                                        options.file.rows(), options.file.tensor_ranks());
  if (options.file.given()) return classify_file(options, loaded, world);
  // All ranks see the same text, so none fails alone.
  all_alike(world, [&] {
    const ModelConfig& config = loaded.model->config();
    if (traits_of(config).token_labels) return label_words(options, loaded, world);
    require_objective(config, Objective::classification, loaded.path.string());
    require(
        config.has_images() || options.image.empty(),
        "--image is for a model of images, but the model of {} sees texts: give one with --text",
        loaded.path.string());
    require(!config.has_images() || !options.image.empty(),
            "the model of {} classifies images: give one with --image, or a set of them with "
            "--input",
            loaded.path.string());
    if (config.has_images()) {
      const ImageEncoder encoder(config);
      Pixels pixels = read_image_file(options.image, config.num_channels);
      encoder.resize(pixels);
      Sample sample;
      encoder.encode(pixels, sample);
      const std::vector<double> values = predict_labels(*loaded.model, {&sample, 1})[0];
      if (world.rank() == 0) {
        print_labels(values, config, names_of_labels(loaded.extra, config.num_labels));
      }
      return;
    }
    require(!options.text_pair || config.token_types != 1,
            "--text-pair needs a model with 2 token types, but the model of {} has 1",
            loaded.path.string());
    if (!options.ids) require_tokenizer(*loaded.tokenizer, "--text", loaded.path);
    const auto encode = [&](std::string_view text) {
      return options.ids ? parse_ids(text, config.vocab_size, "the ids")
                         : loaded.tokenizer->encode(text);
    };
    const ClassificationEncoder encoder(encode, loaded.tokenizer->traits(), config.seq_length,
                                        options.truncate);
    Sample sample;
    encoder.encode(options.text, options.text_pair, options.ids ? "--ids" : "--text", sample);
    const std::vector<double> values = predict_labels(*loaded.model, {&sample, 1})[0];
    if (world.rank() == 0)
      print_labels(values, config, names_of_labels(loaded.extra, config.num_labels));
  });
}

}  // namespace

void add_classify_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<ClassifyOptions>();
  CLI::App* command =
      app.add_subcommand("classify", "Classify a text or an image, or all of a file");
  add_model_argument(*command, options->checkpoint, options->ema);
  command->add_option("--text", options->text, "The text")->type_name("TEXT");
  add_ids_option(*command, options->text, "--text");
  command
      ->add_option("--text-pair", options->text_pair,
                   "The second text of a pair; its ids with --ids")
      ->type_name("TEXT");
  add_file_options(*command, options->file, "--text");
  command->get_option("--text-pair")->excludes(command->get_option("--input"));
  command->add_flag("--truncate", options->truncate,
                    "Truncate texts that are too long for the model");
  CLI::Option* const image =
      command
          ->add_option("--image", options->image,
                       "The PNG or JPEG file of an image, for a model of images; --input is then a "
                       "set of images, as in data.train")
          ->type_name("FILE");
  for (const char* other : {"--text", "--ids", "--text-pair", "--input", "--truncate"}) {
    image->excludes(command->get_option(other));
  }
  add_device_options(*command, options->devices);
  command->callback([command, options, &exit_code] {
    options->ids = options->image.empty() && has_ids_or_file(*command, options->file, "--text");
    exit_code = run_on_ranks(command_line_of(*command),
                             [&](Communicator& world) { classify(*options, world); });
  });
}

}  // namespace tessera
