#include "launch/train/evaluation_pass.h"

#include "core/memory.h"
#include "core/ops/elementwise.h"
#include "launch/metrics/dataset_sums.h"
#include "models/architecture.h"
#include "parallel/communicators/exchange.h"

namespace tessera {

OwnedTensor on_host(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  OwnedTensor result(tensor.shape(), tensor.dtype());
  copy(tensor, result.tensor);
  return result;
}

StepContext evaluation_context(Arena& arena, const SequenceShard& rows, Communicator* cp) {
  StepContext ctx{arena};
  ctx.cp = cp;
  ctx.training = false;
  ctx.recompute = Recompute::block;  // no backward pass reads what a block computes
  ctx.rows = rows;
  return ctx;
}

bool evaluates_whole_batches(const ModelConfig& config) {
  const ModelTraits traits = traits_of(config);
  return traits.token_labels || traits.objective == Objective::embedding;
}

Tensor allocate_predictions(Arena& arena, const ModelConfig& config, const TokenBatch& batch) {
  const ModelTraits traits = traits_of(config);
  if (config.head == Head::pretraining) return {};
  if (traits.token_labels) return arena.allocate({batch.num_targets()}, DType::i32);
  const int64_t documents = batch.num_documents();
  if (traits.objective == Objective::embedding) {
    return arena.allocate({documents, config.hidden_size}, DType::f32);
  }
  if (traits.label_width == 0) return arena.allocate({documents}, DType::i32);
  return arena.allocate({documents, traits.label_width}, DType::f32);
}

TargetLosses allocate_losses(Arena& arena, const TokenBatch& batch) {
  return {arena.allocate({batch.num_targets()}, DType::f32),
          arena.allocate({batch.num_documents()}, DType::f32)};
}

Evaluation evaluate(const EvaluationPass& pass, int64_t num_batches,
                    const OnEvaluated& on_evaluated) {
  EvaluationCounts found(pass.config, pass.label_names);
  DatasetSums datasets(pass.config, pass.datasets, pass.token_bytes);
  TargetCounts counts;
  const Device device = pass.arena.device();
  const OwnedTensor owned_sums({LossSums::kCount}, DType::f64, device);
  const LossSums sums{owned_sums.tensor};
  fill(sums.values, 0.0);
  const bool whole = evaluates_whole_batches(pass.config);
  const bool counts_here = !whole || pass.groups.cp->rank() == 0;
  all_or_none(pass.groups.world, [&] { pass.batches.start(num_batches); });
  while (pass.batches.has_next()) {
    BatchBuffers* loaded = nullptr;
    // Data ranks read different samples, so a damaged one may affect a single rank.
    all_or_none(pass.groups.world, [&] { loaded = &pass.batches.take(); });
    const TokenBatch micro_batch = whole ? loaded->whole() : loaded->batch();
    pass.arena.reset();
    const StepContext ctx = evaluation_context(pass.arena, pass.rows, pass.groups.cp.get());
    const Tensor predictions = allocate_predictions(pass.arena, pass.config, micro_batch);
    TargetLosses losses;
    if (datasets.reads_losses()) losses = allocate_losses(pass.arena, micro_batch);
    const TokenBatch on_device =
        whole ? pass.device_batch.upload_whole(*loaded) : pass.device_batch.upload(*loaded);
    pass.model.evaluate(ctx, on_device, sums, predictions, losses);
    if (!counts_here) {
      fill(sums.values, 0.0);
      continue;
    }
    const OwnedTensor predicted = on_host(predictions);
    found.add(micro_batch, predicted.tensor);
    const OwnedTensor of_tokens = on_host(losses.tokens), of_documents = on_host(losses.documents);
    datasets.add(micro_batch, loaded->datasets(), {of_tokens.tensor, of_documents.tensor},
                 predicted.tensor);
    counts.add(micro_batch);
    if (on_evaluated) on_evaluated(micro_batch);
  }
  counts.all_reduce(*pass.groups.replicas);
  pass.groups.replicas->all_reduce(sums.values);
  const OwnedTensor sums_on_host = on_host(sums.values);
  Evaluation result = found.finish({sums_on_host.tensor}, counts, *pass.groups.replicas);
  datasets.finish(result, *pass.groups.replicas);
  return result;
}

}  // namespace tessera
