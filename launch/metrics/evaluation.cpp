#include "launch/metrics/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <tuple>

#include "core/ops/cross_entropy.h"

namespace tessera {
namespace {

double ratio(double part, int64_t whole) {
  return whole == 0 ? 0.0 : part / static_cast<double>(whole);
}

double value(const Tensor& sum) { return sum.span<double>()[0]; }

void sum_over(Communicator& group, std::vector<int64_t>& counts) {
  if (counts.empty()) return;
  group.all_reduce(Tensor(counts.data(), {static_cast<int64_t>(counts.size())}, DType::i64, kCpu));
}

/// 2 TP / (2 TP + FP + FN) of each label; 0 for a label that neither occurs nor is predicted.
std::vector<double> f1_scores(const std::vector<int64_t>& labeled,
                              const std::vector<int64_t>& predicted,
                              const std::vector<int64_t>& correct) {
  std::vector<double> scores;
  for (size_t i = 0; i < labeled.size(); ++i) {
    scores.push_back(ratio(2.0 * static_cast<double>(correct[i]), labeled[i] + predicted[i]));
  }
  return scores;
}

}  // namespace

void TargetCounts::add(const TokenBatch& batch) {
  const auto labels = batch.labels.span<int32_t>();
  tokens += batch.num_tokens();
  token_targets += batch.num_targets();
  document_targets += std::count_if(labels.begin(), labels.end(),
                                    [](int32_t label) { return label != kIgnoreTarget; });
  const auto ends = batch.documents.span<int32_t>();
  for (size_t i = 0; i + 1 < ends.size(); ++i) {
    const int64_t length = ends[i + 1] - ends[i];
    pairs += length * length;
  }
}

void TargetCounts::add(const TargetCounts& other) {
  tokens += other.tokens;
  token_targets += other.token_targets;
  document_targets += other.document_targets;
  pairs += other.pairs;
}

void TargetCounts::all_reduce(Communicator& dp) {
  std::array<int64_t, 4> counts = {tokens, token_targets, document_targets, pairs};
  dp.all_reduce(Tensor(counts.data(), {std::ssize(counts)}, DType::i64, kCpu));
  std::tie(tokens, token_targets, document_targets, pairs) = std::tuple_cat(counts);
}

Losses mean_losses(const LossSums& sums, const TargetCounts& counts) {
  return {ratio(value(sums.token_loss()), counts.token_targets),
          ratio(value(sums.document_loss()), counts.document_targets)};
}

double Evaluation::macro_f1() const {
  return ratio(std::accumulate(f1.begin(), f1.end(), 0.0), static_cast<int64_t>(f1.size()));
}

std::string describe(const Evaluation& found) {
  std::string text = fmt::format("loss {:.4f}", found.losses.total());
  if (found.counts.token_targets > 0) {
    text += fmt::format("  token accuracy {:.1f}% (always the most frequent: {:.1f}%)",
                        100.0 * found.token_accuracy, 100.0 * found.most_frequent_token);
  }
  if (found.counts.document_targets > 0) {
    text += fmt::format("  {} accuracy {:.1f}%", found.f1.empty() ? "next-sentence" : "label",
                        100.0 * found.document_accuracy);
  }
  if (!found.f1.empty()) {
    text += fmt::format(" (always the most frequent: {:.1f}%)  macro F1 {:.3f}",
                        100.0 * found.most_frequent_label, found.macro_f1());
  }
  return text;
}

EvaluationCounts::EvaluationCounts(int64_t vocab_size, int64_t num_labels)
    : targets_(static_cast<size_t>(vocab_size)),
      labeled_(static_cast<size_t>(num_labels)),
      predicted_(static_cast<size_t>(num_labels)),
      correct_(static_cast<size_t>(num_labels)) {}

void EvaluationCounts::add(const TokenBatch& batch, const Tensor& predictions) {
  for (const int32_t target : batch.targets.span<int32_t>())
    ++targets_[static_cast<size_t>(target)];
  if (labeled_.empty()) return;
  for (int64_t i = 0; i < batch.num_documents(); ++i) {
    const int32_t label = batch.labels.data<int32_t>()[i];
    const int32_t prediction = predictions.data<int32_t>()[i];
    if (label == kIgnoreTarget) continue;
    ++labeled_[static_cast<size_t>(label)];
    ++predicted_[static_cast<size_t>(prediction)];
    if (label == prediction) ++correct_[static_cast<size_t>(label)];
  }
}

Evaluation EvaluationCounts::finish(const LossSums& sums, const TargetCounts& counts,
                                    Communicator& dp) {
  for (std::vector<int64_t>* counted : {&targets_, &labeled_, &predicted_, &correct_}) {
    sum_over(dp, *counted);
  }
  Evaluation result;
  result.losses = mean_losses(sums, counts);
  result.counts = counts;
  result.token_accuracy = ratio(value(sums.token_correct()), counts.token_targets);
  const int64_t most = *std::max_element(targets_.begin(), targets_.end());
  result.most_frequent_token = ratio(static_cast<double>(most), counts.token_targets);
  result.document_accuracy = ratio(value(sums.document_correct()), counts.document_targets);
  result.f1 = f1_scores(labeled_, predicted_, correct_);
  if (!labeled_.empty()) {
    const auto most_labeled = *std::max_element(labeled_.begin(), labeled_.end());
    result.most_frequent_label = ratio(static_cast<double>(most_labeled), counts.document_targets);
  }
  return result;
}

}  // namespace tessera
