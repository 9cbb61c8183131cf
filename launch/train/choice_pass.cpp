#include "launch/train/choice_pass.h"

#include <utility>

#include "core/memory.h"
#include "core/ops/elementwise.h"
#include "parallel/communicators/exchange.h"

namespace tessera {
namespace {

/// Subtracts the losses (M) of a micro-batch from the sums of its choices, which are the labels of
/// its documents.
void add_choices(const TokenBatch& batch, const Tensor& losses, std::vector<double>& sums) {
  const auto ends = batch.documents.span<int32_t>().subspan(1);
  const auto labels = batch.labels.span<int32_t>(), rows = batch.target_rows.span<int32_t>();
  size_t document = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    while (rows[i] >= ends[document]) ++document;
    sums[static_cast<size_t>(labels[document])] -= double{losses.span<float>()[i]};
  }
}

}  // namespace

TokenBatches choice_batches(std::shared_ptr<const ChoiceDataset> dataset, const ModelConfig& config,
                            int64_t micro_batch, Communicator& dp) {
  const BatchLayout layout = {micro_batch * dp.size(), micro_batch, dp.rank(), dp.size()};
  return {nullptr, std::move(dataset), config.vocab_size, /*seed=*/0, layout};
}

std::vector<double> choice_log_likelihoods(const EvaluationPass& pass, const TokenBatches& batches,
                                           const ChoiceDataset& dataset,
                                           const std::function<void()>& on_batch) {
  std::vector<double> sums(static_cast<size_t>(dataset.num_choices()), 0.0);
  all_or_none(pass.groups.world, [&] { pass.batches.start(batches, batches.num_eval_batches()); });
  while (pass.batches.has_next()) {
    BatchBuffers* loaded = nullptr;
    all_or_none(pass.groups.world, [&] { loaded = &pass.batches.take(); });
    pass.arena.reset();
    const StepContext ctx = evaluation_context(pass.arena, pass.rows);
    const Tensor losses = pass.model.token_losses(ctx, pass.device_batch.upload(*loaded));
    const OwnedTensor on_host(losses.shape(), losses.dtype());
    copy(losses, on_host.tensor);
    add_choices(loaded->batch(), on_host.tensor, sums);
    if (on_batch) on_batch();
  }
  // Each choice is on one data rank, and 0 on the others.
  pass.groups.dp->all_reduce(Tensor(sums.data(), {std::ssize(sums)}, DType::f64, kCpu));
  return sums;
}

}  // namespace tessera
