#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "core/error.h"
#include "launch/cli/commands.h"
#include "launch/cli/support/command_line.h"
#include "launch/cli/support/file_options.h"
#include "launch/cli/support/loaded_model.h"
#include "launch/cli/support/process.h"
#include "launch/data/datasets/classification_dataset.h"
#include "launch/support/text/print.h"
#include "launch/tokenizers/id_tokenizer.h"
#include "launch/tools/predict/predict.h"
#include "launch/tools/predict/text_model.h"
#include "models/architecture.h"
#include "parallel/communicators/exchange.h"

namespace tessera {
namespace {

struct EmbedOptions {
  std::string checkpoint;
  bool ema = false;  ///< whether to use the averaged weights
  std::string text;
  bool ids = false;  ///< whether the text is ids
  bool truncate = false;
  FileOptions file;  ///< instead of a text
  DeviceOptions devices;
};

void embed_file(const EmbedOptions& options, const LoadedModel& loaded, Communicator& world) {
  FilePredictionOptions how;
  how.truncate = options.truncate;
  how.vectors = true;
  const auto open = [&](const FilePredictionOptions& opened) {
    require_objective(loaded.model->config(), Objective::embedding, loaded.path.string());
    return embedding_prediction(loaded.model->config(), *loaded.tokenizer, opened);
  };
  predict_for_file(loaded, options.file, how, open, world);
}

void embed(const EmbedOptions& options, Communicator& world) {
  const LoadedModel loaded = load_model(options.checkpoint, options.ema, options.devices, world,
                                        options.file.rows(), options.file.tensor_ranks());
  if (options.file.given()) return embed_file(options, loaded, world);
  // All ranks see the same text, so none fails alone.
  all_alike(world, [&] {
    const ModelConfig& config = loaded.model->config();
    require_objective(config, Objective::embedding, loaded.path.string());
    if (!options.ids) require_tokenizer(*loaded.tokenizer, "--text", loaded.path);
    const auto encode = [&](std::string_view text) {
      return options.ids ? parse_ids(text, config.vocab_size, "the ids")
                         : loaded.tokenizer->encode(text);
    };
    Sample sample;
    ClassificationEncoder(encode, loaded.tokenizer->traits(), config.seq_length, options.truncate)
        .encode(options.text, {}, options.ids ? "--ids" : "--text", sample);
    const Tensor found = embed_texts(*loaded.model, {&sample, 1});
    if (world.rank() != 0) return;
    print_out("{{\"embedding\": [{:.9g}]}}\n", fmt::join(found.span<float>(), ", "));
  });
}

}  // namespace

void add_embed_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<EmbedOptions>();
  CLI::App* command = app.add_subcommand(
      "embed", "Make vectors of a text, or of all texts of a file, with a trained encoder");
  add_model_argument(*command, options->checkpoint, options->ema);
  command->add_option("--text", options->text, "The text")->type_name("TEXT");
  add_ids_option(*command, options->text, "--text");
  add_file_options(*command, options->file, "--text");
  command->get_option("--output")->description("With --input: the .jsonl or .npy file to write");
  command->add_flag("--truncate", options->truncate,
                    "Truncate texts that are too long for the model");
  add_device_options(*command, options->devices);
  command->callback([command, options, &exit_code] {
    options->ids = has_ids_or_file(*command, options->file, "--text");
    exit_code = run_on_ranks(command_line_of(*command),
                             [&](Communicator& world) { embed(*options, world); });
  });
}

}  // namespace tessera
