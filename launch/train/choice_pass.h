#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "launch/data/datasets/choice_dataset.h"
#include "launch/data/loading/token_batches.h"
#include "launch/train/evaluation_pass.h"

namespace tessera {

/// Rows of questions as micro-batches of `micro_batch` rows, which the data ranks share.
TokenBatches choice_batches(std::shared_ptr<const ChoiceDataset> dataset, const ModelConfig& config,
                            int64_t micro_batch, Communicator& dp);

/// Returns the log-likelihood of each choice of `dataset` after its context, the sum of log p of
/// its tokens, on every rank. Dropout is off. `batches` are choice_batches() of the dataset, which
/// pass.batches loads, and must outlive that. Only rounding depends on the layout of ranks and on
/// the micro-batches. Calls `on_batch`, if it is set, after each of this rank's micro-batches.
/// Throws on all ranks or none. Collective over the world.
std::vector<double> choice_log_likelihoods(const EvaluationPass& pass, const TokenBatches& batches,
                                           const ChoiceDataset& dataset,
                                           const std::function<void()>& on_batch = {});

}  // namespace tessera
