#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/model.h"
#include "models/token_batch.h"
#include "parallel/communicators/communicator.h"

namespace tessera {

/// How much there is of what losses are means over. Plain numbers, so that one all-reduce sums
/// them.
struct TargetCounts {
  int64_t tokens = 0;            ///< without padding
  int64_t token_targets = 0;     ///< tokens that have a target
  int64_t document_targets = 0;  ///< documents that have a label
  int64_t pairs = 0;             ///< of a token and one of its document, for attention's FLOPs

  void add(const TokenBatch& batch);  ///< in host memory
  void add(const TargetCounts& other);
  /// Sums over the data ranks.
  void all_reduce(Communicator& dp);
};

/// Means over all targets of a step or an evaluation. A mean over nothing is 0.
struct Losses {
  double token = 0.0;     ///< of predicted tokens
  double document = 0.0;  ///< of labels: next sentence, or class

  double total() const { return token + document; }
};

/// `sums` are those of all data ranks.
Losses mean_losses(const LossSums& sums, const TargetCounts& counts);

/// What an evaluation found.
struct Evaluation {
  Losses losses;
  TargetCounts counts;
  /// A target whose logit is the largest together with others counts: in bf16 that is not rare.
  double token_accuracy = 0.0;
  /// The part of the targets that the most frequent of them is: what always guessing it would get.
  double most_frequent_token = 0.0;
  double document_accuracy = 0.0;
  double most_frequent_label = 0.0;  ///< likewise, for a classification head
  std::vector<double> f1;            ///< of each label, for a classification head

  /// The mean over the labels.
  double macro_f1() const;
};

/// "loss 1.2345  token accuracy 56.7% (always the most frequent: 8.9%)", and what there is of
/// labels: for people.
std::string describe(const Evaluation& found);

/// Collects, over an evaluation, what the sums of losses do not say.
class EvaluationCounts {
 public:
  /// `num_labels` is 0 for a model without a classification head.
  EvaluationCounts(int64_t vocab_size, int64_t num_labels);

  /// `predictions` (S) is read only with labels; they and the batch's labels are below num_labels.
  void add(const TokenBatch& batch, const Tensor& predictions);

  /// The whole evaluation, from sums of all data ranks. Collective over `dp`.
  Evaluation finish(const LossSums& sums, const TargetCounts& counts, Communicator& dp);

 private:
  /// How often each token was a target.
  std::vector<int64_t> targets_;
  /// How often each label was there, was predicted, and was both.
  std::vector<int64_t> labelled_, predicted_, correct_;
};

}  // namespace tessera
