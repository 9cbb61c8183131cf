#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launch/metrics/step_result.h"
#include "parallel/communicators/communicator.h"

namespace tessera {

/// Which rank was the slowest in some steps. `waits` has `steps` numbers for each rank, the seconds
/// that it waited in collectives; `seconds` is the length of all steps. The slowest rank of a step
/// is the one that waited the least. Pure.
SlowestRank find_slowest(const std::vector<double>& waits, size_t steps, double seconds);

/// Finds the rank that the others wait for, and says so if it is always the same one.
class StragglerWatch {
 public:
  /// A rank's time in a step: its length, and the part that it waited in collectives. Of the steps
  /// since the last gather(), the last 100 count.
  void add_step(double seconds, double waited);

  /// The slowest rank of these steps; nullopt with a single rank. Collective.
  std::optional<SlowestRank> gather(Communicator& world);

  /// A warning if the result of the last gather() makes a rank a straggler: for at least three
  /// results and ten steps, it was the slowest in four of five steps, and all ranks together spent
  /// a tenth of their time waiting for it. "" otherwise, and if it was named before.
  std::string take_warning();

 private:
  struct Step {
    double seconds = 0.0, waited = 0.0;
  };
  std::vector<Step> steps_;
  SlowestRank last_;
  size_t last_steps_ = 0;
  // Results in a row that name the same rank.
  int suspect_ = -1, results_ = 0;
  int64_t suspect_steps_ = 0, seen_steps_ = 0;
  double share_sum_ = 0.0;
  std::vector<int> named_;
};

}  // namespace tessera
