// Runs whose context ranks share the tokens of each micro-batch compute what one rank does.

#include <gtest/gtest.h>

#include <cmath>

#include "tests/equivalence/small_run_fixtures.h"

namespace tessera {
namespace {

using test::Layout;
using test::SmallKind;
using test::WholeRun;

constexpr int64_t kSteps = 4;

/// A layout of context ranks, with what else shards a run.
struct ContextRun {
  Layout layout;
  int64_t zero = 0;
  bool sequence = false;
  Recompute recompute = Recompute::none;

  RunConfig of(RunConfig config) const {
    config.parallel.zero = zero;
    config.parallel.sequence = sequence;
    config.train.recompute = recompute;
    return config;
  }
};

class ContextKinds : public test::SmallRuns, public testing::WithParamInterface<SmallKind> {};

// Three ranks divide the rows of few batches.
TEST_P(ContextKinds, MatchOneRank) {
  RunConfig run = config(GetParam());
  run.model.attention_dropout = 0.1;
  const WholeRun whole = test::train_whole(run, {{1, 1}, kSteps});
  for (const ContextRun& context : {ContextRun{{1, 1, 2}}, ContextRun{{1, 1, 3}, 1},
                                    ContextRun{{2, 1, 2}, 3, true, Recompute::block},
                                    ContextRun{{1, 2, 4}, 3}, ContextRun{{2, 2, 2}, 1}}) {
    if (test::on_gpu() && context.layout.ranks() > 4) continue;  // NCCL needs a GPU for each
    SCOPED_TRACE(fmt::format("{} zero {}", to_string(context.layout), context.zero));
    const WholeRun cut = test::train_whole(context.of(run), {context.layout, kSteps});
    test::expect_same_bits(cut.initial_weights, whole.initial_weights, "initial weights");
    test::expect_equal(cut, whole, test::small_run_tolerance(GetParam()));
  }
}

INSTANTIATE_TEST_SUITE_P(All, ContextKinds, testing::ValuesIn(test::kSmallKinds),
                         [](const auto& instance) { return to_string(instance.param); });

}  // namespace
}  // namespace tessera
