#pragma once

#include <filesystem>

#include "launch/tools/evaluate/eval_run.h"
#include "launch/tools/predict/text_model.h"
#include "parallel/process_grid.h"

namespace tessera {

/// Answers the questions of options.multiple_choice with the model of `checkpoint`, in fp32, and
/// writes options.log_samples: a line per question, in the order of the files.
///
///     {"name": "hellaswag", "line": 1, "answer": 3, "acc": 1, "acc_norm": 0,
///      "log_likelihoods": [-31.2, ...]}
///
/// Throws on all ranks or none. Collective.
EvalReport answer_questions(const EvalOptions& options, const ParallelGroups& groups,
                            const std::filesystem::path& checkpoint, TextModel& model);

}  // namespace tessera
