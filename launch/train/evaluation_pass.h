#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/arena.h"
#include "core/memory.h"
#include "launch/data/eval_datasets.h"
#include "launch/data/loading/device_batch.h"
#include "launch/data/loading/prefetched_evaluation.h"
#include "launch/metrics/evaluation.h"
#include "launch/metrics/token_bytes.h"
#include "models/model.h"
#include "models/model_config.h"
#include "parallel/process_grid.h"

namespace tessera {

/// The inputs of an evaluation, on every rank.
struct EvaluationPass {
  const ModelConfig& config;
  Model& model;
  Arena& arena;  ///< has room for the model's evaluate() of the largest micro-batch
  const ParallelGroups& groups;
  PrefetchedEvaluation& batches;              ///< of evaluation data
  DeviceBatch& device_batch;                  ///< on the arena's device
  SequenceShard rows = {};                    ///< how the tensor ranks share activations
  std::vector<std::string> label_names = {};  ///< as in data.labels, or empty
  /// The datasets of the evaluation data (Sample::dataset), or empty: one without a name.
  std::vector<EvalDataset> datasets = {};
  TokenBytes token_bytes = {};  ///< of the data's tokenizer
};

/// Called with each evaluated micro-batch of this data rank, in host memory. All tensor ranks of a
/// replica see the same one.
using OnEvaluated = std::function<void(const TokenBatch& batch)>;

/// A copy in host memory; undefined if `tensor` is.
OwnedTensor on_host(const Tensor& tensor);

/// The context for evaluating one micro-batch, which may be cut over `cp`.
StepContext evaluation_context(Arena& arena, const SequenceShard& rows, Communicator* cp = nullptr);

/// Whether every context rank evaluates whole micro-batches, of which the first one counts: metrics
/// need all words of a text, or all texts of a sample, on one rank.
bool evaluates_whole_batches(const ModelConfig& config);

/// Memory for the predictions of Model::evaluate() with a head for labels or embeddings; otherwise
/// undefined.
Tensor allocate_predictions(Arena& arena, const ModelConfig& config, const TokenBatch& batch);

/// Memory for the loss of each target of a batch.
TargetLosses allocate_losses(Arena& arena, const TokenBatch& batch);

/// Evaluates `num_batches` batches of the evaluation data, without dropout. Throws on all
/// ranks or none, as TokenBatches::load_eval does. Collective over the world.
Evaluation evaluate(const EvaluationPass& pass, int64_t num_batches,
                    const OnEvaluated& on_evaluated = {});

}  // namespace tessera
