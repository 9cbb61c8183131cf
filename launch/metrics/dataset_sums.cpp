#include "launch/metrics/dataset_sums.h"

#include <numbers>

#include "core/memory.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/elementwise.h"
#include "core/ops/value_loss.h"
#include "models/architecture.h"

namespace tessera {
namespace {

double mean(double sum, int64_t count) {
  return count == 0 ? 0.0 : sum / static_cast<double>(count);
}

/// Bits of `nats` per byte; nullopt if there are no bytes.
std::optional<double> bits_per_byte(double nats, double bytes) {
  if (bytes <= 0.0) return std::nullopt;
  return nats / std::numbers::ln2 / bytes;
}

}  // namespace

DatasetSums::DatasetSums(const ModelConfig& config, const std::vector<EvalDataset>& datasets,
                         const TokenBytes& bytes)
    : config_(config), token_bytes_(bytes), datasets_(datasets) {
  if (datasets_.empty()) datasets_.emplace_back();
  sums_.resize(datasets_.size());
  reads_losses_ = datasets_.size() > 1 && traits_of(config).objective != Objective::embedding;
}

void DatasetSums::add(const TokenBatch& batch, std::span<const int32_t> dataset_of_row,
                      const TargetLosses& losses, const Tensor& predictions) {
  const auto padded_rows = batch.padded_rows.span<int32_t>();
  const auto rows = batch.target_rows.span<int32_t>(), targets = batch.targets.span<int32_t>();
  for (size_t i = 0; i < rows.size(); ++i) {
    const int64_t row = padded_rows[static_cast<size_t>(rows[i])] / batch.seq_length;
    Sums& sums = sums_[static_cast<size_t>(dataset_of_row[static_cast<size_t>(row)])];
    ++sums.token_targets;
    sums.bytes += token_bytes_.of(targets[i]);
    if (losses.tokens.defined()) sums.token_loss += double{losses.tokens.span<float>()[i]};
  }
  add_documents(batch, dataset_of_row, losses, predictions);
}

void DatasetSums::add_documents(const TokenBatch& batch, std::span<const int32_t> dataset_of_row,
                                const TargetLosses& losses, const Tensor& predictions) {
  if (!reads_losses_) return;
  const auto padded_rows = batch.padded_rows.span<int32_t>();
  const auto starts = batch.documents.span<int32_t>(), labels = batch.labels.span<int32_t>();
  const bool has_values = traits_of(config_).label_width > 0;
  for (int64_t document = 0; document < batch.num_documents(); ++document) {
    const auto i = static_cast<size_t>(document);
    if (labels[i] == kIgnoreTarget) continue;
    const int64_t row = padded_rows[static_cast<size_t>(starts[i])] / batch.seq_length;
    Sums& sums = sums_[static_cast<size_t>(dataset_of_row[static_cast<size_t>(row)])];
    ++sums.document_targets;
    if (has_values) {
      const ValueLoss loss = config_.problem_type == ProblemType::regression
                                 ? ValueLoss::mse
                                 : ValueLoss::bce_with_logits;
      value_loss(predictions.slice(document, document + 1),
                 batch.label_values.slice(document, document + 1), loss,
                 Tensor(&sums.document_loss, {1}, DType::f64, kCpu));
    } else if (losses.documents.defined()) {
      sums.document_loss += double{losses.documents.span<float>()[i]};
    }
  }
}

void DatasetSums::all_reduce(Communicator& replicas) {
  std::vector<double> losses;
  std::vector<int64_t> counts;
  for (const Sums& sums : sums_) {
    losses.insert(losses.end(), {sums.token_loss, sums.document_loss});
    counts.insert(counts.end(), {sums.token_targets, sums.document_targets, sums.bytes});
  }
  replicas.all_reduce(Tensor(losses.data(), {std::ssize(losses)}, DType::f64, kCpu));
  replicas.all_reduce(Tensor(counts.data(), {std::ssize(counts)}, DType::i64, kCpu));
  for (size_t i = 0; i < sums_.size(); ++i) {
    sums_[i] = {losses[2 * i], losses[2 * i + 1], counts[3 * i], counts[3 * i + 1],
                counts[3 * i + 2]};
  }
}

double DatasetSums::bytes_of(size_t dataset) const {
  const Objective objective = traits_of(config_).objective;
  const bool predicts_text = objective == Objective::causal_lm || objective == Objective::seq2seq;
  if (predicts_text && token_bytes_.known()) return static_cast<double>(sums_[dataset].bytes);
  // The mean is of all text, and targets of other objectives are a part of it or none.
  if (objective != Objective::causal_lm) return 0.0;
  return datasets_[dataset].bytes_per_token * static_cast<double>(sums_[dataset].token_targets);
}

void DatasetSums::finish(Evaluation& found, Communicator& replicas) {
  all_reduce(replicas);
  double bytes = 0.0;
  bool all_known = true;
  for (size_t i = 0; i < sums_.size(); ++i) {
    const Sums& sums = sums_[i];
    const double own = bytes_of(i);
    all_known = all_known && (own > 0.0 || sums.token_targets == 0);
    bytes += own;
    if (!reads_losses_ || sums.token_targets + sums.document_targets == 0) continue;
    DatasetLosses of_dataset{datasets_[i].name,
                             {mean(sums.token_loss, sums.token_targets),
                              mean(sums.document_loss, sums.document_targets)},
                             sums.token_targets,
                             sums.document_targets,
                             bits_per_byte(sums.token_loss, own)};
    found.datasets.push_back(std::move(of_dataset));
  }
  const double nats = found.losses.token * static_cast<double>(found.counts.token_targets);
  if (all_known) found.bits_per_byte = bits_per_byte(nats, bytes);
}

}  // namespace tessera
