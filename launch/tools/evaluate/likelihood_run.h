#pragma once

#include <filesystem>

#include "launch/tools/evaluate/eval_run.h"
#include "launch/tools/predict/text_model.h"
#include "parallel/process_grid.h"

namespace tessera {

/// Scores the texts of options.log_likelihoods (likelihood_dataset.h) with the model of
/// `checkpoint`, in fp32, and writes options.log_samples: a line for each line.
///
///     {"log_likelihood": -12.5, "greedy": false, "tokens": 4}
///
/// The log-likelihood is the sum of log p of the tokens. `greedy` says whether no other token is
/// likelier than any of them. Throws on all ranks or none. Collective.
EvalReport score_texts(const EvalOptions& options, const ParallelGroups& groups,
                       const std::filesystem::path& checkpoint, TextModel& model);

}  // namespace tessera
