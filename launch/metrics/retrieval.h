#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "parallel/communicators/communicator.h"

namespace tessera {

/// The places of positives among all candidates, sorted by similarity to their anchors.
struct Retrieval {
  double loss = 0.0;            ///< mean of −log softmax(scale × cosines) of the positives
  double accuracy_at_1 = 0.0;   ///< fraction of positives in first place; ties count as in front
  double accuracy_at_10 = 0.0;  ///< fraction of positives among the first ten
  double mrr_at_10 = 0.0;       ///< mean of 1 / place, 0 beyond ten
};

/// The embeddings of an evaluation's samples, each an anchor, its positive and perhaps a hard
/// negative. An anchor's positive must be found among the positives and negatives of all samples,
/// so that the result does not depend on batches and ranks.
class RetrievalEvaluation {
 public:
  RetrievalEvaluation(int64_t texts_of_sample, double scale)
      : texts_(texts_of_sample), scale_(scale) {}

  /// `embeddings` (samples × texts, width), of length 1.
  void add(std::span<const float> embeddings, int64_t width);

  /// Compares the samples of all data ranks. Each finds the places of its own anchors. Collective.
  Retrieval finish(Communicator& replicas);

 private:
  int64_t texts_;
  double scale_;
  int64_t width_ = 0;
  std::vector<float> anchors_, positives_, negatives_;  // of this rank, `width_` floats each
};

}  // namespace tessera
