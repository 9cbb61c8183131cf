#include "launch/train/evaluation_pass.h"

#include "core/memory.h"
#include "core/ops/elementwise.h"
#include "parallel/communicators/exchange.h"

namespace tessera {
namespace {

OwnedTensor on_host(const Tensor& tensor) {
  OwnedTensor result(tensor.shape(), tensor.dtype());
  copy(tensor, result.tensor);
  return result;
}

}  // namespace

StepContext evaluation_context(Arena& arena, const SequenceShard& rows) {
  StepContext ctx{arena};
  ctx.training = false;
  ctx.recompute = Recompute::block;  // no backward pass reads what a block computes
  ctx.rows = rows;
  return ctx;
}

Evaluation evaluate(const EvaluationPass& pass, int64_t num_batches,
                    const OnEvaluated& on_evaluated) {
  const bool classifies = pass.config.head == Head::classification;
  EvaluationCounts found(pass.config.vocab_size, classifies ? pass.config.num_labels : 0);
  TargetCounts counts;
  const Device device = pass.arena.device();
  const OwnedTensor owned_sums({LossSums::kCount}, DType::f64, device);
  const LossSums sums{owned_sums.tensor};
  fill(sums.values, 0.0);
  all_or_none(pass.groups.world, [&] { pass.batches.start(num_batches); });
  while (pass.batches.has_next()) {
    BatchBuffers* loaded = nullptr;
    // Data ranks read different samples, so a damaged one may affect a single rank.
    all_or_none(pass.groups.world, [&] { loaded = &pass.batches.take(); });
    const TokenBatch micro_batch = loaded->batch();
    pass.arena.reset();
    const StepContext ctx = evaluation_context(pass.arena, pass.rows);
    Tensor predictions;
    if (classifies) predictions = pass.arena.allocate({micro_batch.num_documents()}, DType::i32);
    pass.model.evaluate(ctx, pass.device_batch.upload(*loaded), sums, predictions);
    found.add(micro_batch, classifies ? on_host(predictions).tensor : Tensor());
    counts.add(micro_batch);
    if (on_evaluated) on_evaluated(micro_batch);
  }
  counts.all_reduce(*pass.groups.dp);
  pass.groups.dp->all_reduce(sums.values);
  const OwnedTensor sums_on_host = on_host(sums.values);
  return found.finish({sums_on_host.tensor}, counts, *pass.groups.dp);
}

}  // namespace tessera
