#pragma once

#include <vector>

#include "launch/data/sample.h"
#include "launch/generation/queried_model.h"
#include "launch/tokenizers/tokenizer.h"
#include "launch/tools/attention/attention_report.h"
#include "launch/train/training_loop.h"

namespace tessera {

/// Attention that a training run shows (log.attention_interval): the first kLayersOfRun
/// layers and kHeadsOfRun heads, in the first document of a held-out sample, of which it reads at
/// most kTokensOfRun tokens of each text.
inline constexpr int64_t kLayersOfRun = 2, kHeadsOfRun = 4;
inline constexpr size_t kTokensOfRun = 32;

/// Computes the pictures and the report of a text. Collective over model.tp().
AttentionOfRun attention_of_run(QueriedModel& model, const Tokenizer& tokenizer,
                                const Sample& sample);

}  // namespace tessera
