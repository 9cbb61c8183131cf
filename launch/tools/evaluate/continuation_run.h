#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/arena.h"
#include "launch/checkpoint/checkpoint.h"
#include "launch/data/datasets/continuation_dataset.h"
#include "launch/support/files/staged_file.h"
#include "launch/tools/evaluate/eval_run.h"
#include "launch/tools/predict/text_model.h"
#include "launch/train/continuation_pass.h"
#include "parallel/process_grid.h"

namespace tessera {

/// Scores files of continuations with a checkpoint's model, in fp32, and writes
/// options.log_samples. One rank's part.
class ContinuationRun {
 public:
  using Files = std::vector<std::shared_ptr<const ContinuationDataset>>;
  using OpenFiles = std::function<Files(const Checkpoint&, const Tokenizer&, const ModelConfig&)>;

  /// Opens the files, which must be the same on all ranks. `model` is that of `checkpoint`, and
  /// must outlive this. Throws on all ranks or none. Collective.
  ContinuationRun(const EvalOptions& options, const ParallelGroups& groups,
                  const std::filesystem::path& checkpoint, TextModel& model,
                  const OpenFiles& open_files);

  /// Calls `use` with the scores of each file, on every rank, and writes what it returns to
  /// options.log_samples, which appears once all are scored. Returns a report with the checkpoint,
  /// the step and the time. Throws on all ranks or none. Collective.
  EvalReport run(
      const std::function<std::string(size_t file, const ContinuationScores& scores)>& use);

 private:
  void open(const OpenFiles& open_files);

  const EvalOptions& options_;
  const ParallelGroups& groups_;
  EvalReport report_;
  ModelConfig config_;
  Files files_;
  std::vector<TokenBatches> batches_;  // of each file
  TextModel& model_;
  std::optional<Arena> arena_;
  std::optional<DeviceBatch> device_batch_;
  std::unique_ptr<PrefetchedEvaluation> prefetched_;
  std::unique_ptr<StagedFile> log_;  // on rank 0
};

}  // namespace tessera
