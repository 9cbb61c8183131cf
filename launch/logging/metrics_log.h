#pragma once

#include <filesystem>
#include <fstream>

#include "launch/logging/console.h"

namespace tessera {

/// RUN/metrics.jsonl: one JSON object a line. Lines of steps have step, loss, grad_norm, lr, tokens
/// (of the run so far, without padding), tokens_per_second, padded_tokens_per_second, step_ms,
/// data_wait_seconds (since the line before, on the rank that waited longest in each step) and
/// model_flops_per_second (of all ranks), mfu where the GPU's peak is known, and token_loss and
/// document_loss where a step has both; lines of evaluations have step and eval_loss, and what
/// Evaluation says; lines of checkpoints have step, and as save_seconds how long training waited
/// for it and as save_background_seconds how long it was worked on meanwhile, and may come after
/// those of later steps. A number that is not finite is null.
class MetricsLog {
 public:
  /// Opens the log to go on after `steps_done`: lines of later steps, which a run wrote that did
  /// not live to save them, are removed. Throws if the file can not be written.
  MetricsLog(const std::filesystem::path& run_dir, int64_t steps_done);

  void step(const StepResult& result, int64_t run_tokens, const Speed& speed);
  void evaluation(int64_t step, const Evaluation& found);
  void saved(const SavedCheckpoint& saved);

 private:
  void write(const Json& line);

  std::filesystem::path path_;
  std::ofstream file_;
};

}  // namespace tessera
