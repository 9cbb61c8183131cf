#include "launch/cli/support/query.h"

#include "launch/checkpoint/run_state.h"
#include "launch/cli/support/command_line.h"
#include "launch/cli/support/process.h"
#include "launch/tokenizers/id_tokenizer.h"
#include "models/architecture.h"
#include "parallel/communicators/exchange.h"

namespace tessera {
namespace {

void ask(const QueryCommand& command, const Query& query, Communicator& world) {
  const LoadedModel loaded =
      load_model(resolve(query.checkpoint, world), query.checkpoint.ema, query.devices, world,
                 query.file.rows(), query.file.tensor_ranks());
  if (!query.file.given()) {
    // All ranks see the same text, so none fails alone.
    return all_alike(world, [&] { command.answer(query, loaded, world.rank() == 0); });
  }
  FilePredictionOptions how;
  how.truncate = truncates(query, loaded);
  how.top = query.top;
  how.vectors = command.vectors;
  const auto open = [&](const FilePredictionOptions& options) {
    return command.open_file(loaded, options);
  };
  predict_for_file(loaded, query.file, how, open, world);
}

}  // namespace

void add_query_command(CLI::App& app, int& exit_code, const QueryCommand& description) {
  const auto query = std::make_shared<Query>();
  CLI::App* command = app.add_subcommand(description.name, description.description);
  add_model_argument(*command, query->checkpoint);
  command->add_option("--text", query->text, description.text)->type_name("TEXT");
  add_ids_option(*command, query->text, "--text");
  add_file_options(*command, query->file, "--text");
  if (description.add_options) description.add_options(*command, *query);
  add_device_options(*command, query->devices);
  command->callback([command, description, query, &exit_code] {
    query->ids = query->image.empty() && has_ids_or_file(*command, query->file, "--text");
    exit_code = run_on_ranks(command_line_of(*command),
                             [&](Communicator& world) { ask(description, *query, world); });
  });
}

void add_truncate_option(CLI::App& command, Query& query) {
  command.add_flag("--truncate", query.truncate,
                   "Truncate texts that are too long for the model (default: as in its run)");
}

bool truncates(const Query& query, const LoadedModel& loaded) {
  const bool words = traits_of(loaded.model->config()).token_labels;
  return query.truncate || (!words && loaded.run.truncate);
}

Sample sample_of(const Query& query, const LoadedModel& loaded) {
  if (!query.ids) require_tokenizer(*loaded.tokenizer, "--text", loaded.path);
  const ModelConfig& config = loaded.model->config();
  const auto encode = [&](std::string_view text) {
    return query.ids ? parse_ids(text, config.vocab_size, "the ids")
                     : loaded.tokenizer->encode(text);
  };
  Sample sample;
  ClassificationEncoder(encode, loaded.tokenizer->traits(), config.seq_length,
                        truncates(query, loaded))
      .encode(query.text, query.text_pair, query.option(), sample);
  return sample;
}

}  // namespace tessera
