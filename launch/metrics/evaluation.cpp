#include "launch/metrics/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <compare>
#include <cstring>
#include <functional>
#include <numeric>
#include <span>
#include <tuple>

#include "core/ops/cross_entropy.h"
#include "launch/support/text/human_text.h"
#include "launch/support/text/printable_text.h"
#include "launch/support/text/terminal_text.h"
#include "models/architecture.h"
#include "parallel/communicators/exchange.h"

namespace tessera {
namespace {

double ratio(double part, int64_t whole) {
  return whole == 0 ? 0.0 : part / static_cast<double>(whole);
}

constexpr std::string_view kNoTargets = "no token or text has a target";

/// part / whole; undefined without a whole, for the reason `why_not`.
Metric share(std::string_view key, std::string_view name, double part, int64_t whole,
             std::string_view why_not) {
  if (whole == 0) return {key, name, std::nan(""), why_not};
  return {key, name, part / static_cast<double>(whole)};
}

double value(const Tensor& sum) { return sum.span<double>()[0]; }

void sum_over(Communicator& group, std::vector<int64_t>& counts) {
  if (counts.empty()) return;
  group.all_reduce(Tensor(counts.data(), {static_cast<int64_t>(counts.size())}, DType::i64, kCpu));
}

std::vector<double> ratios(const std::vector<int64_t>& some, const std::vector<int64_t>& all) {
  std::vector<double> found;
  for (size_t i = 0; i < all.size(); ++i) {
    found.push_back(ratio(static_cast<double>(some[i]), all[i]));
  }
  return found;
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

int64_t sum(const std::vector<int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

using Pairs = std::vector<EvaluatedNumber>;

/// The pairs of all ranks, sorted, so that their order does not depend on the number of ranks.
Pairs gather(const Pairs& local, Communicator& replicas) {
  const std::string_view bytes(reinterpret_cast<const char*>(local.data()),
                               local.size() * sizeof(EvaluatedNumber));
  Pairs all;
  for (const std::string& part : all_gather_strings(replicas, bytes)) {
    const size_t before = all.size();
    all.resize(before + part.size() / sizeof(EvaluatedNumber));
    if (!part.empty()) std::memcpy(&all[before], part.data(), part.size());
  }
  std::ranges::sort(all, [](const EvaluatedNumber& a, const EvaluatedNumber& b) {
    // Orders NaN too.
    const auto by_target = std::strong_order(a.target, b.target);
    if (std::is_neq(by_target)) return std::is_lt(by_target);
    return std::is_lt(std::strong_order(a.prediction, b.prediction));
  });
  return all;
}

/// Pearson's correlation; NaN if either side is constant.
double correlation(std::span<const double> x, std::span<const double> y) {
  const auto n = static_cast<double>(x.size());
  const double mean_x = std::accumulate(x.begin(), x.end(), 0.0) / n;
  const double mean_y = std::accumulate(y.begin(), y.end(), 0.0) / n;
  double xx = 0.0, yy = 0.0, xy = 0.0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double dx = x[i] - mean_x, dy = y[i] - mean_y;
    xx += dx * dx;
    yy += dy * dy;
    xy += dx * dy;
  }
  return xy / (std::sqrt(xx) * std::sqrt(yy));
}

/// The place of each value in ascending order; the mean of their places for equal values.
std::vector<double> ranks_of(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return values[i]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (size_t i = begin; i < end; ++i) {
      ranks[order[i]] = 0.5 * static_cast<double>(begin + end - 1);
    }
  }
  return ranks;
}

/// Targets and predictions of a regression.
class Numbers {
 public:
  explicit Numbers(const Pairs& pairs) {
    for (const auto& [target, prediction] : pairs) {
      targets_.push_back(static_cast<double>(target));
      predictions_.push_back(static_cast<double>(prediction));
    }
  }

  double pearson() const { return correlation(targets_, predictions_); }
  double spearman() const { return correlation(ranks_of(targets_), ranks_of(predictions_)); }
  /// Why there is no correlation; "" if there is one.
  std::string_view undefined() const {
    const auto equal = [](const std::vector<double>& values) {
      return std::ranges::adjacent_find(values, std::not_equal_to()) == values.end();
    };
    if (targets_.size() < 2) return "there are fewer than two texts";
    if (!std::ranges::all_of(predictions_, [](double x) { return std::isfinite(x); })) {
      return "a prediction is not finite";
    }
    if (equal(targets_)) return "all targets are equal";
    return equal(predictions_) ? "all predictions are equal" : "";
  }

 private:
  std::vector<double> targets_, predictions_;
};

}  // namespace

void TargetCounts::add(const TokenBatch& batch) {
  const auto labels = batch.labels.span<int32_t>();
  tokens += batch.num_tokens();
  token_targets += batch.num_targets();
  documents += batch.num_documents();
  document_targets += std::count_if(labels.begin(), labels.end(),
                                    [](int32_t label) { return label != kIgnoreTarget; });
  if (batch.source.tokens.defined()) source_tokens += batch.source.num_tokens();
  const ContextCut &cut = batch.cut, &source_cut = batch.source.cut;
  if (cut.defined() && cut.rank > 0) return;  // the first rank counts the pairs of all
  const auto ends = (cut.defined() ? cut.documents : batch.documents).span<int32_t>();
  for (size_t i = 0; i + 1 < ends.size(); ++i) {
    const int64_t length = ends[i + 1] - ends[i];
    pairs += length * length;
  }
  if (!batch.source.tokens.defined()) return;
  const auto source_ends =
      (source_cut.defined() ? source_cut.documents : batch.source.documents).span<int32_t>();
  for (size_t i = 0; i + 1 < ends.size(); ++i) {
    const int64_t length = source_ends[i + 1] - source_ends[i];
    source_pairs += length * length;
    cross_pairs += length * (ends[i + 1] - ends[i]);
  }
}

void TargetCounts::add(const TargetCounts& other) {
  tokens += other.tokens;
  token_targets += other.token_targets;
  documents += other.documents;
  document_targets += other.document_targets;
  pairs += other.pairs;
  source_tokens += other.source_tokens;
  source_pairs += other.source_pairs;
  cross_pairs += other.cross_pairs;
}

void TargetCounts::all_reduce(Communicator& replicas) {
  std::array<int64_t, 8> counts = {tokens, token_targets, documents,    document_targets,
                                   pairs,  source_tokens, source_pairs, cross_pairs};
  replicas.all_reduce(Tensor(counts.data(), {std::ssize(counts)}, DType::i64, kCpu));
  std::tie(tokens, token_targets, documents, document_targets, pairs, source_tokens, source_pairs,
           cross_pairs) = std::tuple_cat(counts);
}

Losses mean_losses(const LossSums& sums, const TargetCounts& counts) {
  return {ratio(value(sums.token_loss()), counts.token_targets),
          ratio(value(sums.document_loss()), counts.document_targets)};
}

double Evaluation::macro_f1() const {
  return ratio(std::accumulate(f1.begin(), f1.end(), 0.0), static_cast<int64_t>(f1.size()));
}

std::string class_table(const Evaluation& found, const std::vector<std::string>& names) {
  constexpr size_t kMostColumns = 20;
  const size_t classes = found.f1.size();
  if (classes == 0 || std::ssize(found.f1) > Evaluation::kMostConfused) return "";
  const auto name_of = [&](size_t label) {
    return label < names.size() ? for_terminal(names[label]) : fmt::format("{}", label);
  };
  size_t widest = 5;
  for (size_t label = 0; label < classes; ++label) {
    widest = std::max(widest, name_of(label).size());
  }
  const bool has_columns = !found.confusion.empty() && classes <= kMostColumns;
  const auto column_of = [&](size_t label) {
    return fmt::format("  {:>{}}", name_of(label), std::max<size_t>(5, name_of(label).size()));
  };
  std::string text = fmt::format("{:<{}}  precision  recall     F1", "label", widest);
  if (has_columns) text += "  predicted as";
  for (size_t label = 0; label < classes && has_columns; ++label) text += column_of(label);
  for (size_t label = 0; label < classes; ++label) {
    text += fmt::format("\n{:<{}}  {:>9}  {:>6}  {:>5}", name_of(label), widest,
                        percent(found.precision[label]), percent(found.recall[label]),
                        measured(found.f1[label], 3));
    if (!has_columns) continue;
    text += fmt::format("  {:>12}", "");
    for (size_t column = 0; column < classes; ++column) {
      text += fmt::format("{:>{}}", found.confusion[label * classes + column],
                          column_of(column).size());
    }
  }
  return text;
}

double Evaluation::best_loss() const {
  return has_targets() ? ema_losses.value_or(losses).total() : std::nan("");
}

Json numbers_of(const Evaluation& found) {
  Json numbers = {{"loss", found.losses.total()}};
  if (!found.has_targets()) numbers = {{"loss", nullptr}, {"loss_undefined", kNoTargets}};
  if (found.ema_losses && found.has_targets()) numbers["ema_loss"] = found.ema_losses->total();
  if (found.counts.token_targets > 0) {
    numbers["token_loss"] = found.losses.token;
    numbers["token_accuracy"] = found.token_accuracy;
    numbers["most_frequent_token"] = found.most_frequent_token;
  }
  if (found.counts.document_targets > 0) {
    numbers["document_loss"] = found.losses.document;
    if (found.one_label) numbers["document_accuracy"] = found.document_accuracy;
  }
  for (const auto& [key, name, value, undefined] : found.metrics) {
    numbers[std::string(key)] = value;
    if (!undefined.empty()) numbers[fmt::format("{}_undefined", key)] = undefined;
  }
  if (!found.f1.empty()) {
    if (found.one_label) numbers["most_frequent_label"] = found.most_frequent_label;
    numbers["f1"] = found.f1;
    numbers["macro_f1"] = found.macro_f1();
  }
  if (found.bits_per_byte) numbers["bits_per_byte"] = *found.bits_per_byte;
  return numbers;
}

std::string describe(const Evaluation& found) {
  if (!found.has_targets() && found.choices.empty()) {
    return fmt::format("loss undefined ({})", kNoTargets);
  }
  std::string text = fmt::format("loss {}", measured(found.losses.total()));
  if (found.ema_losses) text += fmt::format("  EMA loss {}", measured(found.ema_losses->total()));
  if (found.counts.token_targets > 0) {
    text += fmt::format("  token accuracy {} (always the most frequent: {})",
                        percent(found.token_accuracy), percent(found.most_frequent_token));
  }
  if (found.bits_per_byte)
    text += fmt::format("  bits per byte {}", measured(*found.bits_per_byte));
  if (found.counts.document_targets > 0 && found.one_label) {
    text += fmt::format("  {} accuracy {}", found.f1.empty() ? "next-sentence" : "label",
                        percent(found.document_accuracy));
  }
  if (!found.f1.empty() && found.one_label) {
    text += fmt::format(" (always the most frequent: {})", percent(found.most_frequent_label));
  }
  for (const Metric& metric : found.metrics) {
    text += metric.undefined.empty()
                ? fmt::format("  {} {}", metric.name, measured(metric.value, 3))
                : fmt::format("  {} undefined ({})", metric.name, metric.undefined);
  }
  if (!found.f1.empty()) text += fmt::format("  macro F1 {}", measured(found.macro_f1(), 3));
  for (const ChoiceScores& scores : found.choices) text += "  " + describe(scores);
  return text;
}

std::string describe_datasets(const Evaluation& found) {
  std::string text;
  for (const DatasetLosses& dataset : found.datasets) {
    text += fmt::format("{}{} {}", text.empty() ? "loss by dataset: " : ", ",
                        printable(dataset.name), measured(dataset.losses.total()));
  }
  return text;
}

EvaluationCounts::EvaluationCounts(const ModelConfig& config,
                                   const std::vector<std::string>& label_names)
    : targets_(static_cast<size_t>(config.vocab_size)) {
  const bool words = config.head == Head::token_classification;
  if (words && std::ssize(label_names) == config.num_labels &&
      EntityLabels::are_entities(label_names)) {
    entity_labels_ = EntityLabels(label_names);
    entities_.resize(3);
  }
  if (config.head == Head::embedding) {
    retrieval_.emplace(traits_of(config).texts_of_sample, config.similarity_scale);
  }
  if (config.head != Head::classification) return;
  type_ = config.problem_type;
  if (type_ == ProblemType::regression) return;
  const auto labels = static_cast<size_t>(config.num_labels);
  labeled_.resize(labels);
  predicted_.resize(labels);
  correct_.resize(labels);
  if (type_ == ProblemType::multi_label_classification) {
    exact_.resize(1);
  } else if (config.num_labels <= Evaluation::kMostConfused) {
    confusion_.resize(labels * labels);
  }
}

void EvaluationCounts::add(const TokenBatch& batch, const Tensor& predictions) {
  for (const int32_t target : batch.targets.span<int32_t>())
    ++targets_[static_cast<size_t>(target)];
  if (!entities_.empty()) add_entities(batch, predictions);
  if (retrieval_ && predictions.numel() > 0) {
    retrieval_->add(predictions.span<float>(), predictions.dim(1));
  }
  if (!type_) return;
  switch (*type_) {
    case ProblemType::single_label_classification:
      return add_classes(batch, predictions);
    case ProblemType::multi_label_classification:
      return add_label_sets(batch, predictions);
    case ProblemType::regression:
      return add_numbers(batch, predictions);
  }
}

void EvaluationCounts::add_classes(const TokenBatch& batch, const Tensor& predictions) {
  for (int64_t i = 0; i < batch.num_documents(); ++i) {
    const int32_t label = batch.labels.data<int32_t>()[i];
    const int32_t prediction = predictions.data<int32_t>()[i];
    if (label == kIgnoreTarget) continue;
    ++labeled_[static_cast<size_t>(label)];
    ++predicted_[static_cast<size_t>(prediction)];
    if (label == prediction) ++correct_[static_cast<size_t>(label)];
    if (!confusion_.empty()) {
      ++confusion_[static_cast<size_t>(label) * labeled_.size() + static_cast<size_t>(prediction)];
    }
  }
}

void EvaluationCounts::add_label_sets(const TokenBatch& batch, const Tensor& predictions) {
  const size_t width = labeled_.size();
  const auto logits = predictions.span<float>(), targets = batch.label_values.span<float>();
  for (size_t i = 0; i < targets.size(); i += width) {
    bool exact = true;
    for (size_t label = 0; label < width; ++label) {
      const bool labeled = targets[i + label] == 1.0f;
      const bool predicted = logits[i + label] > 0.0f;  // a probability above 0.5
      labeled_[label] += labeled ? 1 : 0;
      predicted_[label] += predicted ? 1 : 0;
      correct_[label] += labeled && predicted ? 1 : 0;
      exact = exact && labeled == predicted;
    }
    exact_[0] += exact ? 1 : 0;
  }
}

void EvaluationCounts::add_entities(const TokenBatch& batch, const Tensor& predictions) {
  const auto ends = batch.documents.span<int32_t>(), rows = batch.target_rows.span<int32_t>();
  const auto targets = batch.targets.span<int32_t>(), found = predictions.span<int32_t>();
  size_t first = 0;
  for (size_t document = 1; document < ends.size(); ++document) {
    size_t count = 0;
    while (first + count < rows.size() && rows[first + count] < ends[document]) ++count;
    const std::vector<Entity> labeled = entity_labels_.find(targets.subspan(first, count));
    const std::vector<Entity> predicted = entity_labels_.find(found.subspan(first, count));
    entities_[0] += std::ssize(labeled);
    entities_[1] += std::ssize(predicted);
    entities_[2] += std::ranges::count_if(labeled, [&](const Entity& entity) {
      return std::ranges::find(predicted, entity) != predicted.end();
    });
    first += count;
  }
}

void EvaluationCounts::add_numbers(const TokenBatch& batch, const Tensor& predictions) {
  const auto targets = batch.label_values.span<float>(), found = predictions.span<float>();
  for (size_t i = 0; i < targets.size(); ++i) numbers_.push_back({targets[i], found[i]});
}

Evaluation EvaluationCounts::finish(const LossSums& sums, const TargetCounts& counts,
                                    Communicator& replicas) {
  for (std::vector<int64_t>* counted :
       {&targets_, &labeled_, &predicted_, &correct_, &confusion_, &exact_, &entities_}) {
    sum_over(replicas, *counted);
  }
  Evaluation result;
  result.losses = mean_losses(sums, counts);
  result.counts = counts;
  result.token_accuracy = ratio(value(sums.token_correct()), counts.token_targets);
  const int64_t most = *std::max_element(targets_.begin(), targets_.end());
  result.most_frequent_token = ratio(static_cast<double>(most), counts.token_targets);
  result.document_accuracy = ratio(value(sums.document_correct()), counts.document_targets);
  result.f1 = f1_scores(labeled_, predicted_, correct_);
  result.precision = ratios(correct_, predicted_);
  result.recall = ratios(correct_, labeled_);
  result.confusion = confusion_;
  result.one_label = !type_ || type_ == ProblemType::single_label_classification;
  if (retrieval_) {
    const Retrieval found = retrieval_->finish(replicas);
    result.one_label = false;
    result.losses.document = found.loss;
    result.metrics = {{"accuracy_at_1", "accuracy@1", found.accuracy_at_1},
                      {"accuracy_at_10", "accuracy@10", found.accuracy_at_10},
                      {"mrr_at_10", "MRR@10", found.mrr_at_10}};
  }
  if (!entities_.empty()) {
    const auto correct = static_cast<double>(entities_[2]);
    constexpr std::string_view kNoneFound = "no entity was predicted";
    constexpr std::string_view kNoneThere = "no entity is labeled";
    result.metrics = {
        share("entity_precision", "entity precision", correct, entities_[1], kNoneFound),
        share("entity_recall", "recall", correct, entities_[0], kNoneThere),
        share("entity_f1", "F1", 2.0 * correct, entities_[0] + entities_[1], kNoneThere)};
  }
  constexpr std::string_view kNoTexts = "no text has labels";
  if (type_ == ProblemType::multi_label_classification) {
    result.metrics = {
        share("exact_match", "exact match", static_cast<double>(exact_[0]), counts.document_targets,
              kNoTexts),
        share("micro_f1", "micro F1", 2.0 * static_cast<double>(sum(correct_)),
              sum(labeled_) + sum(predicted_), "no label is given, and none was predicted")};
  } else if (type_ == ProblemType::regression) {
    const Numbers all(gather(numbers_, replicas));
    const std::string_view undefined = all.undefined();
    // Ranks of NaN would have no end.
    const double pearson = undefined.empty() ? all.pearson() : std::nan("");
    const double spearman = undefined.empty() ? all.spearman() : std::nan("");
    const bool has_texts = counts.document_targets > 0;
    result.metrics = {{"mse", "MSE", has_texts ? result.losses.document : std::nan(""),
                       has_texts ? "" : kNoTexts},
                      {"pearson", "Pearson", pearson, undefined},
                      {"spearman", "Spearman", spearman, undefined}};
  } else if (!labeled_.empty()) {
    const auto most_labeled = *std::max_element(labeled_.begin(), labeled_.end());
    result.most_frequent_label = ratio(static_cast<double>(most_labeled), counts.document_targets);
  }
  return result;
}

}  // namespace tessera
