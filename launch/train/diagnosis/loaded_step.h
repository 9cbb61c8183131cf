#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/arena.h"
#include "core/memory.h"
#include "launch/config/run_config.h"
#include "launch/data/loading/batch_buffers.h"
#include "launch/data/loading/device_batch.h"
#include "launch/data/loading/token_batches.h"
#include "launch/train/train_step.h"
#include "models/model.h"
#include "parallel/process_grid.h"

namespace tessera {

/// The parts of a trainer that compute a step on one rank, to compute one again.
struct StepParts {
  const RunConfig& config;
  Model& model;
  OptimizerState& state;
  const ParallelGroups& groups;
  Arena& arena;
  const TokenBatches& batches;
  DeviceBatch& device_batch;
  TrainStep& step;
};

/// A document of a step's global batch.
struct DocumentName {
  int64_t sample = 0;    ///< its number in the training data
  int64_t document = 0;  ///< its number in the sample
  bool alone = true;     ///< whether the sample has no other
  std::vector<TextOrigin> origins = {};

  /// "sample 17", or "document 2 of sample 17", and where its text is from: "sample 17 (documents 3
  /// to 5 of data/corpus)".
  std::string text() const;
  /// "documents 3 to 5 of data/corpus"; "" if it is not known.
  std::string source() const;
};

/// The texts of documents. Those from the same place are named together, as "samples 3, 5 and 2
/// more (document 3 of data/corpus)".
std::vector<std::string> names_of(const std::vector<DocumentName>& documents);

/// This data rank's micro-batches of any step, loaded by load().
class LoadedStep final : public MicroBatchSource {
 public:
  /// The step whose first sample is at `first_place` of the run's order. `parts` must outlive this.
  LoadedStep(const StepParts& parts, int64_t first_place);

  TargetCounts load() override;
  void load_next() override {}
  int64_t size() const override { return parts_.batches.num_micro_batches(); }
  int64_t first_sequence(int64_t i) const override { return parts_.batches.global_rows(i).begin; }
  TokenBatch batch(int64_t i) override;

  /// Micro-batch i of all context ranks, in host memory.
  TokenBatch on_host(int64_t i) const { return buffers_[static_cast<size_t>(i)].whole(); }
  /// How micro-batches are cut over context ranks.
  const ContextShape& context() const { return shape_.context; }
  /// The numbers of its samples in the training data, in order.
  std::vector<int64_t> samples(int64_t i) const;
  /// Its documents, in order.
  std::vector<DocumentName> documents(int64_t i) const;

 private:
  const StepParts& parts_;
  int64_t first_place_;
  BatchShape shape_;
  std::vector<BatchBuffers> buffers_;
};

/// A document of a micro-batch as a micro-batch of its own, with the same random numbers.
class DocumentBatch {
 public:
  /// Of `host`, a whole micro-batch in host memory, which must outlive this. On `device`, and cut
  /// over context ranks if `context` has several. If there is no such document, the batch is empty.
  DocumentBatch(const TokenBatch& host, int64_t document, Device device = kCpu,
                const ContextShape& context = {});

  const TokenBatch& batch() const { return batch_; }
  int64_t targets() const { return batch_.num_targets(); }

 private:
  TokenBatch batch_;
  std::vector<OwnedTensor> owned_;
  std::optional<CutBuffers> cut_;
};

/// The most documents that a rank of the world has: so many passes run on every rank, so that ranks
/// may share the weights. Those after a rank's own are empty. Collective.
int64_t most_documents(const ParallelGroups& groups, int64_t own);

}  // namespace tessera
