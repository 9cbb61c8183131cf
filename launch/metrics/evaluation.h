#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/metrics/choice_scores.h"
#include "launch/metrics/entities.h"
#include "launch/metrics/retrieval.h"
#include "launch/support/text/json.h"
#include "models/losses.h"
#include "models/model_config.h"
#include "models/token_batch.h"
#include "parallel/communicators/communicator.h"

namespace tessera {

/// The numbers of items that losses are means over. Plain integers, so one all-reduce sums them.
struct TargetCounts {
  int64_t tokens = 0;         ///< without padding
  int64_t token_targets = 0;  ///< tokens that have a target
  int64_t documents = 0;
  int64_t document_targets = 0;  ///< documents that have a label
  int64_t pairs = 0;             ///< (token, token of the same document), for attention FLOPs
  int64_t source_tokens = 0;     ///< of an encoder–decoder
  int64_t source_pairs = 0;      ///< the same pairs of them
  int64_t cross_pairs = 0;       ///< (token, token of its source)

  void add(const TokenBatch& batch);  ///< `batch` is in host memory
  void add(const TargetCounts& other);
  /// Sums over the data ranks.
  void all_reduce(Communicator& replicas);
};

/// Means over all targets of a step or an evaluation. An empty mean is 0.
struct Losses {
  double token = 0.0;     ///< of predicted tokens
  double document = 0.0;  ///< of labels: next sentence, or class; of an embedding head's samples

  double total() const { return token + document; }
};

/// `sums` are already reduced over the data ranks.
Losses mean_losses(const LossSums& sums, const TargetCounts& counts);

/// A number that only some heads have.
struct Metric {
  std::string_view key;             ///< in metrics.jsonl and JSON reports: "micro_f1"
  std::string_view name;            ///< "micro F1"
  double value = 0.0;               ///< NaN if it is undefined
  std::string_view undefined = {};  ///< why it has no value: "all targets are equal"
};

/// The losses of one dataset of an evaluation's blend, over all its targets.
struct DatasetLosses {
  std::string name;  ///< EvalDataset::name
  Losses losses;
  int64_t token_targets = 0, document_targets = 0;
  std::optional<double> bits_per_byte = {};
};

/// The result of an evaluation.
struct Evaluation {
  Losses losses;
  /// Losses of the averaged weights on the same targets, if they have an average.
  std::optional<Losses> ema_losses = {};
  TargetCounts counts;
  /// Fraction of targets predicted correctly. A tie for the largest logit counts as correct; in
  /// bf16 ties are not rare.
  double token_accuracy = 0.0;
  /// Accuracy of always guessing the most frequent target.
  double most_frequent_token = 0.0;
  bool one_label = true;  ///< documents have one label each, so that they have an accuracy
  double document_accuracy = 0.0;
  double most_frequent_label = 0.0;  ///< likewise, for a classification head
  /// Per label, for a head that predicts labels; 0 for a label that did not occur, or was not
  /// predicted.
  std::vector<double> precision, recall, f1;
  /// (K, K) of the K classes, if each document has one: how many documents of a class (row) were
  /// predicted as each (column). Empty beyond kMostConfused classes.
  std::vector<int64_t> confusion;
  std::vector<Metric> metrics;  ///< of label sets, numbers, entities and embeddings
  /// Nats of the predicted tokens / (ln 2 × bytes of text that they stand for). nullopt unless the
  /// model predicts text and these bytes are known.
  std::optional<double> bits_per_byte;
  /// Losses of each dataset of a blend that has targets; empty for an embedding head.
  std::vector<DatasetLosses> datasets;
  std::vector<ChoiceScores> choices;  ///< of files of multiple-choice questions

  static constexpr int64_t kMostConfused = 256;

  /// Whether anything was predicted; otherwise the losses are undefined.
  bool has_targets() const { return counts.token_targets + counts.document_targets > 0; }

  /// The mean of `f1` over the labels.
  double macro_f1() const;

  /// The loss that tells how good the run's model is: of the averaged weights, if there are any.
  /// NaN without targets.
  double best_loss() const;
};

/// The numbers of an evaluation by their names in JSON, as "loss" and "token_accuracy", except
/// those of parts of the data. Undefined ones are null, and NAME_undefined says why.
Json numbers_of(const Evaluation& found);

/// Precision, recall and F1 of each of up to kMostConfused labels and, of up to 20 classes, the
/// confusion matrix, as a table; "" without labels. `names` are those of the labels, or empty.
std::string class_table(const Evaluation& found, const std::vector<std::string>& names);

/// "loss 1.2345  token accuracy 56.7% (always the most frequent: 8.9%)", plus label metrics if any.
std::string describe(const Evaluation& found);

/// "loss by dataset: wiki 3.1234, code 2.3456"; "" if there are none.
std::string describe_datasets(const Evaluation& found);

/// A document's number, for regression.
struct EvaluatedNumber {
  float target = 0.0f;
  float prediction = 0.0f;
};

/// Collects what an evaluation needs besides the sums of losses. Its results do not depend on how
/// samples are distributed over the data ranks.
class EvaluationCounts {
 public:
  /// `label_names` are those of a model that labels words; its entities are only counted if they
  /// are names of entities (entities.h).
  explicit EvaluationCounts(const ModelConfig& config,
                            const std::vector<std::string>& label_names = {});

  /// `predictions` are those of Model::evaluate(), in host memory; read only with a head for labels
  /// or embeddings.
  void add(const TokenBatch& batch, const Tensor& predictions);

  /// Returns the evaluation of all data ranks. Collective over `replicas`.
  Evaluation finish(const LossSums& sums, const TargetCounts& counts, Communicator& replicas);

 private:
  void add_classes(const TokenBatch& batch, const Tensor& predictions);
  void add_label_sets(const TokenBatch& batch, const Tensor& predictions);
  void add_numbers(const TokenBatch& batch, const Tensor& predictions);
  void add_entities(const TokenBatch& batch, const Tensor& predictions);

  /// The classification head's problem; nullopt if there is none.
  std::optional<ProblemType> type_;
  /// How often each token was a target.
  std::vector<int64_t> targets_;
  /// How often each label occurred, was predicted, and was predicted correctly.
  std::vector<int64_t> labeled_, predicted_, correct_;
  std::vector<int64_t> confusion_;  ///< Evaluation::confusion
  /// {documents whose labels were all predicted, and no others}
  std::vector<int64_t> exact_;
  EntityLabels entity_labels_;
  std::vector<int64_t> entities_;         ///< {labeled, predicted, correct}; empty without entities
  std::vector<EvaluatedNumber> numbers_;  ///< of this rank's documents
  std::optional<RetrievalEvaluation> retrieval_;  ///< of an embedding head
};

}  // namespace tessera
