#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/losses.h"
#include "models/token_batch.h"
#include "parallel/communicators/communicator.h"

namespace tessera {

/// The numbers of items that losses are means over. Plain integers, so one all-reduce sums them.
struct TargetCounts {
  int64_t tokens = 0;            ///< without padding
  int64_t token_targets = 0;     ///< tokens that have a target
  int64_t document_targets = 0;  ///< documents that have a label
  int64_t pairs = 0;             ///< (token, token of the same document), for attention FLOPs

  void add(const TokenBatch& batch);  ///< `batch` is in host memory
  void add(const TargetCounts& other);
  /// Sums over the data ranks.
  void all_reduce(Communicator& dp);
};

/// Means over all targets of a step or an evaluation. An empty mean is 0.
struct Losses {
  double token = 0.0;     ///< of predicted tokens
  double document = 0.0;  ///< of labels: next sentence, or class

  double total() const { return token + document; }
};

/// `sums` are already reduced over the data ranks.
Losses mean_losses(const LossSums& sums, const TargetCounts& counts);

/// The result of an evaluation.
struct Evaluation {
  Losses losses;
  TargetCounts counts;
  /// Fraction of targets predicted correctly. A tie for the largest logit counts as correct; in
  /// bf16 ties are not rare.
  double token_accuracy = 0.0;
  /// Accuracy of always guessing the most frequent target.
  double most_frequent_token = 0.0;
  double document_accuracy = 0.0;
  double most_frequent_label = 0.0;  ///< likewise, for a classification head
  std::vector<double> f1;            ///< per label, for a classification head

  /// The mean of `f1` over the labels.
  double macro_f1() const;
};

/// "loss 1.2345  token accuracy 56.7% (always the most frequent: 8.9%)", plus label metrics if any.
std::string describe(const Evaluation& found);

/// Collects what an evaluation needs besides the sums of losses.
class EvaluationCounts {
 public:
  /// `num_labels` is 0 for a model without a classification head.
  EvaluationCounts(int64_t vocab_size, int64_t num_labels);

  /// `predictions` (S) is read only if the batch has labels. Predictions and labels are below
  /// num_labels.
  void add(const TokenBatch& batch, const Tensor& predictions);

  /// Returns the evaluation of all data ranks. Collective over `dp`.
  Evaluation finish(const LossSums& sums, const TargetCounts& counts, Communicator& dp);

 private:
  /// How often each token was a target.
  std::vector<int64_t> targets_;
  /// How often each label occurred, was predicted, and was predicted correctly.
  std::vector<int64_t> labeled_, predicted_, correct_;
};

}  // namespace tessera
