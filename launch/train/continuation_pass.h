#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "launch/data/datasets/continuation_dataset.h"
#include "launch/data/loading/token_batches.h"
#include "launch/train/evaluation_pass.h"

namespace tessera {

/// Rows of continuations as micro-batches of `micro_batch` rows, which the data ranks share.
TokenBatches continuation_batches(std::shared_ptr<const ContinuationDataset> dataset,
                                  const ModelConfig& config, int64_t micro_batch, Communicator& dp);

/// Scores of a model for the continuations of a dataset.
struct ContinuationScores {
  /// The sum of log p of the tokens of each continuation after its context.
  std::vector<double> log_likelihoods;
  /// Whether no other token is likelier than any of its tokens, as greedy decoding would choose.
  std::vector<bool> greedy;
};

/// Scores the continuations of `dataset`, on every rank. Dropout is off. `batches` are
/// continuation_batches() of the dataset, which pass.batches loads, and must outlive that. Only
/// rounding depends on the layout of ranks and on the micro-batches. Calls `on_batch`, if it is
/// set, after each of this rank's micro-batches. Throws on all ranks or none. Collective over the
/// world.
ContinuationScores score_continuations(const EvaluationPass& pass, const TokenBatches& batches,
                                       const ContinuationDataset& dataset,
                                       const std::function<void()>& on_batch = {});

}  // namespace tessera
