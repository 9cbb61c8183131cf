// The average of the weights does not depend on the layout, nor on interruptions.

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/equivalence/small_run_fixtures.h"

namespace tessera {
namespace {

using test::Layout;
using test::SmallKind;
using test::WholeRun;

constexpr int64_t kSteps = 3;
constexpr Layout kSmall{2, 2};

class EmaRuns : public test::SmallRuns,
                public testing::WithParamInterface<std::tuple<SmallKind, DType>> {
 protected:
  RunConfig config(int64_t zero) const {
    RunConfig run = SmallRuns::config(std::get<SmallKind>(GetParam()));
    run.run.precision = std::get<DType>(GetParam());
    run.optimizer.ema_decay = 0.8;
    run.parallel.zero = zero;
    return run;
  }
};

TEST_P(EmaRuns, IsTheSameShardedAndResumed) {
  const WholeRun whole = test::train_whole(config(0), {kSmall, 2 * kSteps});
  ASSERT_FALSE(whole.ema.empty());
  EXPECT_EQ(whole.ema.size(), whole.exp_avg.size());
  EXPECT_NE(whole.ema, whole.weights);
  const WholeRun sharded = test::train_whole(config(1), {kSmall, 2 * kSteps});
  test::expect_same_bits(sharded.ema, whole.ema, "average of owners");
  EXPECT_EQ(sharded.evaluation.ema_losses->total(), whole.evaluation.ema_losses->total());

  if (config(0).run.precision == DType::f32) {
    const WholeRun one = test::train_whole(config(0), {{1, 1}, 2 * kSteps});
    test::expect_close(whole.ema, one.ema, 10 * test::kSmallRunTolerance, "average");
    const double loss = one.evaluation.ema_losses->total();
    EXPECT_NEAR(whole.evaluation.ema_losses->total(), loss, test::kSmallRunTolerance * loss);
  }

  const WholeRun saved = test::train_whole(config(1), {kSmall, kSteps, /*resume=*/false, true});
  const WholeRun loaded = test::train_whole(config(1), {{1, 4}, 0, /*resume=*/true});
  test::expect_same_bits(loaded.ema, saved.ema, "average on another layout");
  const WholeRun resumed = test::train_whole(config(0), {kSmall, kSteps, /*resume=*/true});
  test::expect_same_bits(resumed.ema, whole.ema, "average of the resumed run");
  test::expect_same_bits(resumed.weights, whole.weights, "weights");
}

INSTANTIATE_TEST_SUITE_P(Kinds, EmaRuns,
                         testing::Values(std::tuple{SmallKind::gpt_packed, DType::f32},
                                         std::tuple{SmallKind::bert_pairs, DType::bf16},
                                         std::tuple{SmallKind::adapters, DType::f32},
                                         std::tuple{SmallKind::frozen, DType::f32},
                                         std::tuple{SmallKind::muon, DType::bf16}),
                         [](const auto& instance) {
                           return to_string(std::get<SmallKind>(instance.param));
                         });

}  // namespace
}  // namespace tessera
