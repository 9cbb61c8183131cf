#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "tests/support/runs/small_runs.h"
#include "tests/support/runs/training_world.h"
#include "tests/support/test_folder.h"

namespace tessera::test {

/// Tolerances of sharded runs against runs on one rank, over kSmallRunSteps: as in
/// layouts_test.cpp, over half as many steps.
inline constexpr int64_t kSmallRunSteps = 10;
inline constexpr double kSmallRunTolerance = 2e-5;

/// The gradients of a text from its partner and from all other texts nearly cancel in a contrastive
/// loss, so their roundings are larger in comparison.
inline double small_run_tolerance(SmallKind kind) {
  const bool embeds = kind == SmallKind::embeddings || kind == SmallKind::embeddings_cls;
  return embeds ? 5 * kSmallRunTolerance : kSmallRunTolerance;
}

/// Small runs of any architecture, each on its own data.
class SmallRuns : public testing::Test {
 protected:
  SmallRuns() { write_small_data(folder_); }

  RunConfig config(SmallKind kind) const { return small_run(folder_, "run", kind); }

  TestFolder folder_;
};

/// One small run on one layout.
class SmallRunOnLayout : public SmallRuns,
                         public testing::WithParamInterface<std::tuple<SmallKind, Layout>> {
 protected:
  RunConfig config() const { return SmallRuns::config(std::get<SmallKind>(GetParam())); }
  static Layout layout() { return std::get<Layout>(GetParam()); }
  static double tolerance() { return small_run_tolerance(std::get<SmallKind>(GetParam())); }
};

/// "gpt_packed_tensor2_data4"
inline std::string kind_and_layout(
    const testing::TestParamInfo<std::tuple<SmallKind, Layout>>& instance) {
  const auto& [kind, layout] = instance.param;
  return fmt::format("{}_tensor{}_data{}", to_string(kind), layout.tensor, layout.data);
}

}  // namespace tessera::test
