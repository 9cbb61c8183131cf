#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "launch/config/run_config.h"
#include "launch/logging/metrics_log.h"
#include "parallel/communicators/communicator.h"

namespace tessera {

/// The losses of a run's evaluations, also of earlier starts. The same on all ranks.
class EvaluationHistory {
 public:
  /// Those up to `step` in RUN/metrics.jsonl, which rank 0 reads. The losses are of the averaged
  /// weights if the run has them. Collective.
  static EvaluationHistory load(const RunConfig& config, int64_t step, Communicator& world);

  void add(const LoggedEvaluation& evaluation);
  bool has(int64_t step) const;
  /// The step of the lowest loss, the first one if several have it.
  std::optional<int64_t> best_step() const;
  /// The number of evaluations after the best one.
  int64_t since_best() const;
  /// Whether these evaluations end a run early: so many in a row, or more, were no better than the
  /// best before them. A `patience` of 0 is no limit.
  bool exhausts(int64_t patience) const { return patience > 0 && since_best() >= patience; }

 private:
  std::vector<LoggedEvaluation> evaluations_;
  size_t best_ = 0;  // its place; none if there are no evaluations
};

}  // namespace tessera
