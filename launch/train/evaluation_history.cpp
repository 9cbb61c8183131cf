#include "launch/train/evaluation_history.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "core/checked.h"
#include "parallel/communicators/exchange.h"

namespace tessera {

EvaluationHistory EvaluationHistory::load(const RunConfig& config, int64_t step,
                                          Communicator& world) {
  std::vector<LoggedEvaluation> logged;
  if (world.rank() == 0) {
    logged = logged_evaluations(config.run.dir, config.optimizer.ema_decay > 0.0);
    std::erase_if(logged, [&](const LoggedEvaluation& one) { return one.step > step; });
  }
  const std::string bytes = broadcast_string(
      world,
      {reinterpret_cast<const char*>(logged.data()), logged.size() * sizeof(LoggedEvaluation)}, 0);
  logged.resize(bytes.size() / sizeof(LoggedEvaluation));
  if (!bytes.empty()) std::memcpy(static_cast<void*>(logged.data()), bytes.data(), bytes.size());
  EvaluationHistory history;
  for (const LoggedEvaluation& one : logged) history.add(one);
  return history;
}

void EvaluationHistory::add(const LoggedEvaluation& evaluation) {
  evaluations_.push_back(evaluation);
  // Not a NaN, nor after one that came first.
  const double best = evaluations_[best_].loss;
  if (evaluation.loss < best || (std::isnan(best) && !std::isnan(evaluation.loss))) {
    best_ = evaluations_.size() - 1;
  }
}

bool EvaluationHistory::has(int64_t step) const {
  return std::ranges::any_of(evaluations_,
                             [&](const LoggedEvaluation& one) { return one.step == step; });
}

std::optional<int64_t> EvaluationHistory::best_step() const {
  if (evaluations_.empty()) return std::nullopt;
  return evaluations_[best_].step;
}

int64_t EvaluationHistory::since_best() const {
  return evaluations_.empty() ? 0 : narrow<int64_t>(evaluations_.size() - 1 - best_);
}

}  // namespace tessera
