#include <fmt/format.h>
#include <fmt/ranges.h>

#include "launch/cli/commands.h"
#include "launch/cli/support/query.h"
#include "launch/support/text/print.h"
#include "launch/tools/predict/predict.h"
#include "models/architecture.h"

namespace tessera {
namespace {

void embed(const Query& query, const LoadedModel& loaded, bool prints) {
  require_objective(loaded.model->config(), Objective::embedding, loaded.path.string());
  const Sample sample = sample_of(query, loaded);
  const Tensor found = embed_texts(*loaded.model, {&sample, 1});
  if (prints) print_out("{{\"embedding\": [{:.9g}]}}\n", fmt::join(found.span<float>(), ", "));
}

}  // namespace

void add_embed_command(CLI::App& app, int& exit_code) {
  QueryCommand embedding{
      "embed", "Make vectors of a text, or of all texts of a file, with a trained encoder",
      "The text"};
  embedding.vectors = true;
  embedding.add_options = [](CLI::App& command, Query& query) {
    command.get_option("--output")->description("With --input: the .jsonl or .npy file to write");
    add_truncate_option(command, query);
  };
  embedding.open_file = [](const LoadedModel& loaded, const FilePredictionOptions& options) {
    require_objective(loaded.model->config(), Objective::embedding, loaded.path.string());
    return embedding_prediction(loaded.model->config(), *loaded.tokenizer, options);
  };
  embedding.answer = embed;
  add_query_command(app, exit_code, embedding);
}

}  // namespace tessera
