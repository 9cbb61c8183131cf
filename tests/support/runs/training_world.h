#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "launch/config/run_config.h"
#include "launch/train/gathered_run.h"
#include "tests/support/tensors.h"

namespace tessera::test {

/// A tensor × data × context layout.
struct Layout {
  int tensor = 1;
  int data = 1;
  int context = 1;

  int ranks() const { return tensor * data * context; }
};

std::string to_string(const Layout& layout);

using WholeRun = GatheredRun;

struct RunPlan {
  Layout layout;
  int64_t steps = 0;
  /// Resume from the newest checkpoint of run.dir instead of initial weights.
  bool resume = false;
  /// Save a checkpoint after the last step.
  bool save = false;
  Device device = test_device();
};

/// Trains on thread ranks, with `plan`'s layout instead of the config's.
WholeRun train_whole(const RunConfig& config, const RunPlan& plan);

/// Trains on one thread rank for a few steps. Returns the checkpoint that it saved.
std::filesystem::path train_checkpoint(const RunConfig& config);

/// Expects two runs to agree, each tensor relative to its own magnitude.
void expect_close(const WholeTensors& actual, const WholeTensors& expected, double tolerance,
                  const std::string& what);

/// Expects that two runs on different layouts agree: losses, gradients and weights within
/// `tolerance`, and identical predictions in the evaluation.
void expect_equal(const WholeRun& sharded, const WholeRun& whole, double tolerance);

/// Expects bitwise equality.
void expect_same_bits(const WholeTensors& actual, const WholeTensors& expected,
                      const std::string& what);

}  // namespace tessera::test
