#include "launch/train/continuation_pass.h"

#include <span>
#include <utility>

#include "core/memory.h"
#include "parallel/communicators/exchange.h"

namespace tessera {
namespace {

/// Sums over the targets of each continuation.
struct ContinuationSums {
  std::span<double> log_likelihoods;
  std::span<double> misses;  ///< targets beside which another token is likelier
};

/// Adds the scores (M) of a micro-batch to the sums of its continuations, which are the labels of
/// its documents.
void add_scores(const TokenBatch& batch, const TargetScores& each, const ContinuationSums& sums) {
  const OwnedTensor losses = on_host(each.losses), margins = on_host(each.margins);
  const auto ends = batch.documents.span<int32_t>().subspan(1);
  const auto labels = batch.labels.span<int32_t>(), rows = batch.target_rows.span<int32_t>();
  size_t document = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    while (rows[i] >= ends[document]) ++document;
    const auto continuation = static_cast<size_t>(labels[document]);
    sums.log_likelihoods[continuation] -= double{losses.tensor.span<float>()[i]};
    if (!(margins.tensor.span<float>()[i] >= 0.0f)) sums.misses[continuation] += 1.0;
  }
}

}  // namespace

TokenBatches continuation_batches(std::shared_ptr<const ContinuationDataset> dataset,
                                  const ModelConfig& config, int64_t micro_batch,
                                  Communicator& dp) {
  const BatchLayout layout = {micro_batch * dp.size(), micro_batch, dp.rank(), dp.size()};
  return {nullptr, std::move(dataset), config.vocab_size, /*seed=*/0, layout};
}

ContinuationScores score_continuations(const EvaluationPass& pass, const TokenBatches& batches,
                                       const ContinuationDataset& dataset,
                                       const std::function<void()>& on_batch) {
  const auto count = static_cast<size_t>(dataset.num_continuations());
  std::vector<double> sums(2 * count, 0.0);
  const std::span<double> log_likelihoods = std::span(sums).first(count);
  const std::span<double> misses = std::span(sums).last(count);
  all_or_none(pass.groups.world, [&] { pass.batches.start(batches, batches.num_eval_batches()); });
  while (pass.batches.has_next()) {
    BatchBuffers* loaded = nullptr;
    all_or_none(pass.groups.world, [&] { loaded = &pass.batches.take(); });
    pass.arena.reset();
    const StepContext ctx = evaluation_context(pass.arena, pass.rows);
    const TargetScores each = pass.model.token_scores(ctx, pass.device_batch.upload_whole(*loaded));
    // Every context rank computes the same scores, of which one counts.
    if (pass.groups.cp->rank() == 0) add_scores(loaded->whole(), each, {log_likelihoods, misses});
    if (on_batch) on_batch();
  }
  // Each continuation is on one data rank, and 0 on the others.
  pass.groups.replicas->all_reduce(Tensor(sums.data(), {std::ssize(sums)}, DType::f64, kCpu));
  ContinuationScores scores = {{log_likelihoods.begin(), log_likelihoods.end()}, {}};
  for (const double missed : misses) scores.greedy.push_back(missed == 0.0);
  return scores;
}

}  // namespace tessera
