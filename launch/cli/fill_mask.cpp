#include <fmt/format.h>

#include "launch/cli/commands.h"
#include "launch/cli/support/command_line.h"
#include "launch/cli/support/query.h"
#include "launch/support/text/print.h"
#include "launch/tools/predict/predict.h"
#include "launch/tools/predict/text_sample.h"
#include "models/architecture.h"

namespace tessera {
namespace {

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

void fill_mask(const Query& query, const LoadedModel& loaded, bool prints) {
  const ModelConfig& config = loaded.model->config();
  require_objective(config, Objective::masked_lm, loaded.path.string());
  if (!query.ids) require_tokenizer(*loaded.tokenizer, "--text", loaded.path);
  MaskedText text;
  text.sample = query.ids ? sample_of_ids(*loaded.tokenizer, config, query.text, "--ids")
                          : sample_of_text(*loaded.tokenizer, config, query.text);
  text.places = masked_places(text.sample, *loaded.tokenizer,
                              fmt::format("{} is \"{}\", which", query.option(), query.text));
  const auto candidates =
      fill_masks(*loaded.model, {&text, 1}, query.top, loaded.tokenizer->vocab_size())[0];
  if (prints) print(text.sample, text.places, candidates, *loaded.tokenizer);
}

}  // namespace

void add_fill_mask_command(CLI::App& app, int& exit_code) {
  QueryCommand filling{"fill-mask",
                       "Predict the tokens at [MASK], of a text or a file, with a trained BERT",
                       "A text with at least one [MASK]"};
  filling.add_options = [](CLI::App& command, Query& query) {
    command.add_option("--top", query.top, "Number of candidates to print for each mask")
        ->check(whole_number_from(1))
        ->capture_default_str();
  };
  filling.open_file = [](const LoadedModel& loaded, const FilePredictionOptions& options) {
    require_objective(loaded.model->config(), Objective::masked_lm, loaded.path.string());
    return mask_prediction(loaded.model->config(), *loaded.tokenizer, options);
  };
  filling.answer = fill_mask;
  add_query_command(app, exit_code, filling);
}

}  // namespace tessera
