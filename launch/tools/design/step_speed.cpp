#include "launch/tools/design/step_speed.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "parallel/communicators/exchange.h"

namespace tessera {
namespace {

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Rank 0's value on all ranks.
template <typename Value>
Value from_first_rank(Communicator& world, const Value& value) {
  std::string bytes(sizeof(Value), '\0');
  std::memcpy(bytes.data(), &value, sizeof(Value));
  bytes = broadcast_string(world, bytes, 0);
  Value first;
  std::memcpy(&first, bytes.data(), sizeof(Value));
  return first;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

StepSpeed measure_step_speed(const std::function<RunConfig()>& load, OpenedRanks& ranks,
                             double seconds, bool evaluates) {
  constexpr size_t kLeastSteps = 3;
  const Stopwatch since_start;
  RunSetup run(open_run_inputs(ranks.world, load), ranks, /*measures_peak=*/false);
  Trainer& trainer = *run.trainer;
  trainer.tune_products();
  trainer.initialize();
  StepSpeed speed;
  speed.start_seconds = since_start.seconds();
  trainer.step();
  trainer.result();

  const Stopwatch since_first_step;
  std::vector<double> step_seconds;
  for (bool done = false; !done;) {
    trainer.step();
    const StepResult result = trainer.result();
    step_seconds.push_back(result.seconds);
    speed.tokens = static_cast<double>(result.tokens);
    done = from_first_rank(
        ranks.world, step_seconds.size() >= kLeastSteps && since_first_step.seconds() >= seconds);
  }
  speed.step_seconds = median(std::move(step_seconds));
  if (evaluates) {
    const Stopwatch since_evaluation;
    trainer.evaluate();
    speed.evaluation_seconds = since_evaluation.seconds();
  }
  return from_first_rank(ranks.world, speed);
}

}  // namespace tessera
