#include "launch/train/memory/memory_plan.h"

#include <utility>

#include "core/checked.h"
#include "core/cuda/workspace.h"
#include "core/deterministic.h"
#include "core/memory.h"
#include "core/ops/meta/workspace_log.h"
#include "launch/checkpoint/model_state.h"
#include "launch/data/loading/batch_buffers.h"
#include "launch/data/loading/device_batch.h"
#include "launch/train/dry_run.h"
#include "launch/train/evaluation_pass.h"
#include "launch/train/optimizer/optimizer_groups.h"
#include "launch/train/run_layout.h"
#include "launch/train/train_step.h"
#include "models/architecture.h"
#include "models/model.h"
#include "parallel/gradient_reducer.h"
#include "parallel/meta_communicator.h"

namespace tessera {
namespace {

/// The host memory of batches of this shape and, if they are cut, of a context rank's parts.
size_t batch_bytes(const BatchShape& shape) {
  const TokenBatch largest = full_batch_on_meta(shape);
  const TokenBatch part = cut_on_meta(largest, shape.context);
  size_t sum = shape.repeats_sizes ? largest.target_rows.bytes() + largest.targets.bytes() : 0;
  for (const Tensor* tensor : tensors_of(largest)) sum += tensor->bytes();
  if (!part.cut.defined()) return sum;
  for (const Tensor* tensor : tensors_of(part)) sum += tensor->bytes();
  return sum;
}

/// Makes the calling thread's ops use the algorithms of a run for the lifetime of this.
class AlgorithmsOf {
 public:
  explicit AlgorithmsOf(const RunConfig& config) {
    use_deterministic_algorithms(config.run.deterministic);
    allow_cudnn_dropout(config.train.cudnn_dropout);
  }
  ~AlgorithmsOf() {
    use_deterministic_algorithms(deterministic_);
    allow_cudnn_dropout(cudnn_dropout_);
  }
  AlgorithmsOf(const AlgorithmsOf&) = delete;
  AlgorithmsOf& operator=(const AlgorithmsOf&) = delete;

 private:
  bool deterministic_ = deterministic_algorithms();
  bool cudnn_dropout_ = cudnn_dropout_allowed();
};

/// A full micro-batch with the documents of a run: rows of one length, or several documents of any
/// lengths in a row, of which 64 are assumed.
/// `padded`: as the batches of a step on a GPU are, if their sizes are to repeat.
TokenBatch full_batch_of_documents(const RunConfig& config, const ContextShape& context,
                                   bool padded = false) {
  constexpr int64_t kDocumentsOfRow = 64;  // so many that a call of cuDNN is full
  const DataSection& data = config.data;
  const bool is_causal = traits_of(config.model).objective == Objective::causal_lm;
  const bool is_packed = is_causal ? data.packing == Packing::documents || data.separate_documents
                                   : data.short_samples == ShortSamples::pack;
  const ModelTraits traits = traits_of(config.model);
  TokenBatch batch = full_batch_on_meta(batch_shape(config.batch.micro, config.model, config.mlm));
  int64_t documents = batch.sequences * std::max<int64_t>(1, traits.texts_of_sample);
  if (is_packed) documents = std::min(documents * kDocumentsOfRow, batch.num_tokens());
  padded = padded && (is_packed || !is_causal);
  if (padded) documents = most_padded_documents(documents, batch.sequences, batch.seq_length);
  keep_documents(batch, documents);
  if (is_causal && !is_packed) batch.document_length = batch.seq_length;
  return cut_on_meta(batch, context);
}

/// The block that the ops of a run's steps request from a GPU as scratch memory.
size_t plan_workspace(const RunConfig& config, DryRun& dry_run, const ContextShape& context,
                      bool padded, bool has_gpu) {
  WorkspaceLog log(has_gpu);
  const WorkspaceLog::Scope scope(&log);
  const AlgorithmsOf algorithms(config);
  dry_run.train_step(full_batch_of_documents(config, context, padded), {});
  const bool evaluates_whole = evaluates_whole_batches(config.model);
  dry_run.evaluate(full_batch_of_documents(config, evaluates_whole ? ContextShape{} : context));
  if (!config.eval.prompts.empty()) dry_run.write_sample();
  return cuda::workspace_block_bytes(log.largest());
}

int64_t count_global(const ParameterStore& store) {
  int64_t count = 0;
  for (const Parameter& parameter : store.parameters()) count += parameter.global_shape.numel();
  return count;
}

int64_t count_local(const ParameterStore& store) {
  int64_t count = 0;
  for (const Parameter& parameter : store.parameters()) count += parameter.real_shape().numel();
  return count;
}

}  // namespace

size_t MemoryPlan::total() const {
  size_t sum = 0;
  for (const Line& line : lines) sum += counts(line) ? line.bytes : 0;
  return sum;
}

size_t MemoryPlan::total_in_host() const {
  size_t sum = 0;
  for (const Line& line : lines) sum += counts(line) ? 0 : line.bytes;
  return sum;
}

std::vector<MemoryPlan::Line> memory_lines(const OptimizerState& state,
                                           const WorkingMemory& working) {
  const ParameterStore& store = state.store();
  std::vector<MemoryPlan::Line> lines = {
      {"weights", store.value_bytes()},
      {"gradients", store.grad_bytes()},
      {"master weights", state.master_bytes()},
      {"moments", state.moment_bytes()},
      {"gradient copies", working.gradient_copies},
      {"gathered weights", working.gathered_weights},
      {"staged gradients", working.staged_gradients},
      {"activations", working.activations},
      {"workspace", working.workspace},
      {"micro-batch", working.device_batch},
      {kCheckpointCopyLine, working.checkpoint_copy, /*in_host=*/true},
      {"batch", working.host_batches, /*in_host=*/true}};
  if (working.samples > 0) {
    lines.insert(lines.end() - 2, {"samples", working.samples});
  }
  if (const size_t bytes = state.frozen_master_bytes(); bytes > 0) {
    lines.push_back({"frozen master weights", bytes, /*in_host=*/true});
  }
  if (const size_t bytes = state.average_bytes(); bytes > 0) {
    lines.insert(lines.begin() + 4, {"weight average", bytes});
  }
  // Few models have one.
  if (const size_t bytes = store.constant_bytes(); bytes > 0) {
    lines.insert(lines.begin() + 4, {"attention mask", bytes});
  }
  return lines;
}

MemoryPlan plan_memory(const RunConfig& config, const ParallelGroups& groups, Device device,
                       bool has_gpu) {
  const int64_t local_batch = batch_share(config.batch, groups.dp->size()).local_batch;

  // The first tensor rank has the most rows of activations.
  MetaGroups meta(groups.world.size(), groups.grid.shape(),
                  groups.world.rank() - groups.tp->rank());
  DryRun dry_run(config.step_options(), meta);
  dry_run.run_largest();

  const OptimizerState& state = dry_run.state();
  const ParameterStore& store = state.store();
  MemoryPlan plan;
  plan.device = device;
  if (!config.eval.prompts.empty()) plan.sample_bytes = dry_run.write_sample();
  if (!config.eval.multiple_choice.empty()) dry_run.score_continuations();
  plan.arena_bytes = dry_run.arena_peak();
  plan.local_parameters = count_local(store);
  plan.global_parameters = count_global(store);
  WorkingMemory working;
  working.activations = plan.arena_bytes;
  working.samples = plan.sample_bytes;
  if (groups.replicas->size() > 1) {
    working.gradient_copies = GradientReducer::copy_bytes(store, config.parallel.grad_reduce_dtype);
  }
  working.gathered_weights = dry_run.units().value_bytes();
  working.staged_gradients = dry_run.units().gradient_bytes();
  if (device.is_cuda())
    plan.workspace_bytes =
        plan_workspace(config, dry_run, context_ranks_of(groups),
                       training_shape(config, groups, device).repeats_sizes, has_gpu);
  working.workspace = plan.workspace_bytes;
  const BatchShape shape = evaluation_shape(config, groups);
  BatchShape of_step = training_shape(config, groups, device);
  of_step.sequences = local_batch;
  working.device_batch = DeviceBatch::bytes_for(shape, device, /*stages=*/true);
  working.checkpoint_copy =
      copies_checkpoints(config) ? largest_checkpoint_share(state, meta.groups()) : 0;
  // This step's batch and the next, and two micro-batches of an evaluation.
  working.host_batches = 2 * (batch_bytes(of_step) + batch_bytes(shape));
  plan.lines = memory_lines(state, working);
  return plan;
}

bool copies_checkpoints(const RunConfig& config) {
  const int64_t interval = config.checkpoint.interval;
  return config.checkpoint.background && 0 < interval &&
         (interval < config.train.steps || config.automatic.contains("train.steps"));
}

}  // namespace tessera
