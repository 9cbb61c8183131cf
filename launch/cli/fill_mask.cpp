#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "launch/cli/commands.h"
#include "launch/cli/support/command_line.h"
#include "launch/cli/support/file_options.h"
#include "launch/cli/support/loaded_model.h"
#include "launch/cli/support/process.h"
#include "launch/support/text/print.h"
#include "launch/tools/predict/predict.h"
#include "launch/tools/predict/text_model.h"
#include "launch/tools/predict/text_sample.h"
#include "models/architecture.h"
#include "parallel/communicators/exchange.h"

namespace tessera {
namespace {

struct FillMaskOptions {
  std::string checkpoint;
  bool ema = false;  ///< whether to use the averaged weights
  std::string text;
  bool ids = false;  ///< whether the text is ids
  int64_t top = 5;
  FileOptions file;  ///< instead of a text
  DeviceOptions devices;
};

void print(const Sample& sample, const std::vector<int32_t>& places,
           const std::vector<std::vector<Candidate>>& candidates, const Tokenizer& tokenizer) {
  // Shows each candidate in its text, with the likeliest token in the other places.
  std::vector<int32_t> likeliest = sample.tokens;
  for (size_t i = 0; i < places.size(); ++i) {
    likeliest[static_cast<size_t>(places[i])] = candidates[i].front().token;
  }
  for (size_t i = 0; i < places.size(); ++i) {
    if (places.size() > 1) print_out("place {} of {}\n", i + 1, places.size());
    for (const Candidate& candidate : candidates[i]) {
      std::vector<int32_t> filled = likeliest;
      filled[static_cast<size_t>(places[i])] = candidate.token;
      print_out("{:6.2f}%  {:<14} {}\n", 100.0 * candidate.probability,
                tokenizer.token_text(candidate.token), tokenizer.decode(filled));
    }
  }
}

void fill_masks_of_file(const FillMaskOptions& options, const LoadedModel& loaded,
                        Communicator& world) {
  FilePredictionOptions how;
  how.top = options.top;
  const auto open = [&](const FilePredictionOptions& opened) {
    require_objective(loaded.model->config(), Objective::masked_lm, loaded.path.string());
    return mask_prediction(loaded.model->config(), *loaded.tokenizer, opened);
  };
  predict_for_file(loaded, options.file, how, open, world);
}

void fill_mask(const FillMaskOptions& options, Communicator& world) {
  const LoadedModel loaded = load_model(options.checkpoint, options.ema, options.devices, world,
                                        options.file.rows(), options.file.tensor_ranks());
  if (options.file.given()) return fill_masks_of_file(options, loaded, world);
  // All ranks see the same text, so none fails alone.
  all_alike(world, [&] {
    require_objective(loaded.model->config(), Objective::masked_lm, loaded.path.string());
    if (!options.ids) require_tokenizer(*loaded.tokenizer, "--text", loaded.path);
    const ModelConfig& config = loaded.model->config();
    const std::string option = options.ids ? "--ids" : "--text";
    MaskedText text;
    text.sample = options.ids ? sample_of_ids(*loaded.tokenizer, config, options.text, "--ids")
                              : sample_of_text(*loaded.tokenizer, config, options.text);
    text.places = masked_places(text.sample, *loaded.tokenizer,
                                fmt::format("{} is \"{}\", which", option, options.text));
    const auto candidates =
        fill_masks(*loaded.model, {&text, 1}, options.top, loaded.tokenizer->vocab_size())[0];
    if (world.rank() == 0) print(text.sample, text.places, candidates, *loaded.tokenizer);
  });
}

}  // namespace

void add_fill_mask_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<FillMaskOptions>();
  CLI::App* command = app.add_subcommand(
      "fill-mask", "Predict the tokens at [MASK], of a text or a file, with a trained BERT");
  add_model_argument(*command, options->checkpoint, options->ema);
  command->add_option("--text", options->text, "A text with at least one [MASK]")
      ->type_name("TEXT");
  add_ids_option(*command, options->text, "--text");
  command->add_option("--top", options->top, "Number of candidates to print for each mask")
      ->check(whole_number_from(1))
      ->capture_default_str();
  add_file_options(*command, options->file, "--text");
  add_device_options(*command, options->devices);
  command->callback([command, options, &exit_code] {
    options->ids = has_ids_or_file(*command, options->file, "--text");
    exit_code = run_on_ranks(command_line_of(*command),
                             [&](Communicator& world) { fill_mask(*options, world); });
  });
}

}  // namespace tessera
