#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "launch/data/eval_datasets.h"
#include "launch/metrics/evaluation.h"
#include "launch/metrics/token_bytes.h"
#include "models/losses.h"
#include "models/model_config.h"
#include "models/token_batch.h"
#include "parallel/communicators/communicator.h"

namespace tessera {

/// Attributes the losses of an evaluation to the datasets of its blend, and counts the bytes of
/// text that the predicted tokens stand for.
class DatasetSums {
 public:
  /// The arguments must outlive this. No datasets: one without a name.
  DatasetSums(const ModelConfig& config, const std::vector<EvalDataset>& datasets,
              const TokenBytes& bytes);

  /// Whether add() reads the loss of each target. False for a single dataset, and for an embedding
  /// head, whose loss compares texts of all datasets.
  bool reads_losses() const { return reads_losses_; }

  /// `dataset_of_row` is BatchBuffers::datasets(); the rest is in host memory, and as in
  /// Model::evaluate().
  void add(const TokenBatch& batch, std::span<const int32_t> dataset_of_row,
           const TargetLosses& losses, const Tensor& predictions);

  /// Sets `datasets` and `bits_per_byte` of a finished evaluation. Sums over the data ranks, so the
  /// result depends on the layout only by rounding. Collective over `replicas`.
  void finish(Evaluation& found, Communicator& replicas);

 private:
  struct Sums {
    double token_loss = 0.0, document_loss = 0.0;
    int64_t token_targets = 0, document_targets = 0, bytes = 0;
  };

  void add_documents(const TokenBatch& batch, std::span<const int32_t> dataset_of_row,
                     const TargetLosses& losses, const Tensor& predictions);
  void all_reduce(Communicator& replicas);
  /// Bytes of text of a dataset's targets; 0 if they are not known.
  double bytes_of(size_t dataset) const;

  const ModelConfig& config_;
  const TokenBytes& token_bytes_;
  std::vector<EvalDataset> datasets_;
  std::vector<Sums> sums_;  // of each dataset
  bool reads_losses_;
};

}  // namespace tessera
