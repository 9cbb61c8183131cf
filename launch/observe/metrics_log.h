#pragma once

#include <filesystem>
#include <fstream>

#include "launch/train/trainer.h"

namespace tessera {

/// RUN/metrics.jsonl: one JSON object a line. Lines of steps have step, loss, grad_norm, lr, tokens
/// (of the run so far), tokens_per_second and step_ms; lines of evaluations have step and
/// eval_loss. A number that is not finite is null.
class MetricsLog {
 public:
  /// Opens the log to go on after `steps_done`: lines of later steps, which a run wrote that did
  /// not live to save them, are removed. Throws if the file can not be written.
  MetricsLog(const std::filesystem::path& run_dir, int64_t steps_done);

  void step(const StepResult& result, int64_t run_tokens, double tokens_per_second);
  void evaluation(int64_t step, double loss);

 private:
  void write(const Json& line);

  std::filesystem::path path_;
  std::ofstream file_;
};

}  // namespace tessera
