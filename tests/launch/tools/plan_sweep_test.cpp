#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "launch/support/text/human_text.h"
#include "launch/tools/plan/layout_sweep.h"
#include "launch/train/memory/gpu_memory_check.h"
#include "tests/launch/config/support.h"
#include "tests/support/runs/small_runs.h"

namespace tessera {
namespace {

using testing::HasSubstr;

/// GPT-2 124M on data that does not exist.
RunConfig gpt2() {
  RunConfig run = parse_config("x.yaml", kMinimal,
                               std::vector<std::string>{"batch.global=24", "run.precision=bf16"});
  run.model = test::gpt2_model();
  run.model.dropout = run.model.attention_dropout = 0.1;
  return run;
}

SweepOptions options(int64_t ranks, size_t memory) {
  SweepOptions sweep;
  sweep.ranks = ranks;
  sweep.memory = memory;
  sweep.gpu = [ranks](const RunConfig& run) { return RooflineGpu::measured("H100", run, ranks); };
  return sweep;
}

constexpr size_t kGiB = size_t{1} << 30;

TEST(LayoutSweep, ListsFittingLayoutsFastestFirst) {
  const LayoutSweep sweep = sweep_layouts(gpt2(), options(8, 4 * kGiB));
  RunConfig on_gpus = gpt2();
  on_gpus.run.device = DeviceChoice::cuda;
  ASSERT_FALSE(sweep.fitting.empty());
  EXPECT_EQ(sweep.left_free, kUnplannedOfEmptyGpu);
  EXPECT_TRUE(
      std::is_sorted(sweep.fitting.begin(), sweep.fitting.end(),
                     [](const auto& a, const auto& b) { return a.time.total() < b.time.total(); }));
  for (const SweptLayout& swept : sweep.fitting) {
    EXPECT_LE(swept.memory + kUnplannedOfEmptyGpu, 4 * kGiB);
    EXPECT_EQ(swept.layout.tensor * swept.data, 8);
    // A plan of this layout by itself, on GPUs, is the same.
    const RunPlan plan = plan_run(swept.layout.of(on_gpus), 8);
    EXPECT_EQ(swept.memory, plan.memory.total());
    EXPECT_EQ(swept.time.total(),
              roofline(plan, RooflineGpu::measured("H100", plan.config, 8)).parts().total());
  }
  // Of 24 sequences, 8, 4, 2 and 1 data ranks have 3, 6, 12 and 24 each, which have 2, 4, 6 and 8
  // divisors. Each micro-batch size comes with three ways to recompute, with each stage of ZeRO
  // on several data ranks and, on several tensor ranks, with and without sequence parallelism.
  EXPECT_EQ(sweep.broken, 0);
  EXPECT_EQ(std::ssize(sweep.fitting) + sweep.too_large, 4 * 3 * (2 + 2 * 4 + 2 * 6) + 3 * 2 * 8);
  ASSERT_GT(sweep.too_large, 0);
  EXPECT_GT(sweep.smallest_memory + kUnplannedOfEmptyGpu, 4 * kGiB);
  EXPECT_EQ(plan_run(sweep.smallest->of(on_gpus), 8).memory.total(), sweep.smallest_memory);
}

TEST(LayoutSweep, ReservesNoMemoryOnCpu) {
  RunConfig run = gpt2();
  const auto needed = [&] { return plan_run(run, 4).memory.total(); };
  const auto fits = [&](size_t memory) {
    const LayoutSweep sweep = sweep_layouts(run, options(4, memory));
    return std::any_of(sweep.fitting.begin(), sweep.fitting.end(), [](const SweptLayout& swept) {
      return swept.layout.tensor == 1 && swept.layout.micro == 2 &&
             swept.layout.recompute == Recompute::none && swept.layout.zero == 0 &&
             !swept.layout.sequence;
    });
  };
  run.run.device = DeviceChoice::cuda;
  EXPECT_FALSE(fits(needed()));
  EXPECT_TRUE(fits(needed() + kUnplannedOfEmptyGpu));
  run.run.device = DeviceChoice::cpu;
  EXPECT_TRUE(fits(needed()));
  EXPECT_FALSE(fits(needed() - 1));
}

TEST(LayoutSweep, FiltersByTensorRanks) {
  SweepOptions two = options(8, 80 * kGiB);
  two.tensor = 2;
  const LayoutSweep sweep = sweep_layouts(gpt2(), two);
  EXPECT_EQ(sweep.fitting.size(), 4U * 2U * 3U * 4U);
  for (const SweptLayout& swept : sweep.fitting) EXPECT_EQ(swept.layout.tensor, 2);
  two.tensor = 3;
  const LayoutSweep none = sweep_layouts(gpt2(), two);
  EXPECT_TRUE(none.fitting.empty());
  EXPECT_THAT(to_string(none, 20), HasSubstr("none can run"));
  EXPECT_THAT(none.first_broken, HasSubstr("parallel.tensor is 3, but the run has 8 ranks"));
}

TEST(LayoutSweep, ReportsSmallestLayoutIfNoneFits) {
  const LayoutSweep sweep = sweep_layouts(gpt2(), options(4, kGiB));
  EXPECT_TRUE(sweep.fitting.empty());
  ASSERT_TRUE(sweep.smallest.has_value());
  EXPECT_EQ(sweep.smallest->tensor, 4);
  EXPECT_EQ(sweep.smallest->micro, 1);
  EXPECT_THAT(to_string(sweep, 20),
              HasSubstr("none fits: the smallest needs " + human_bytes(sweep.smallest_memory) +
                        " beside the 2.0 GiB that stay free: tensor 4, micro 1, recompute "));
  const Json json = to_json(sweep);
  EXPECT_TRUE(json["layouts"].empty());
  EXPECT_EQ(json["smallest_too_large"]["tensor"], 4);
  EXPECT_EQ(json["too_large"],
            3 * (4 * 4 + 8 * 6 + 2 * 8));  // divisors of 6, 12 and 24; the last has one data rank
}

TEST(LayoutSweep, ReportsAssumptions) {
  const LayoutSweep sweep = sweep_layouts(gpt2(), options(8, 80 * kGiB));
  const std::string text = to_string(sweep, 5);
  for (const char* fact : {"564 TFLOP/s of matrix products in bf16", "2.68 TB/s of memory",
                           "300 GB/s sent to tensor ranks", "20 us per exchange", "predicted s",
                           "whole run", "2.0 GiB must stay free", "  and 307 more"}) {
    EXPECT_THAT(text, HasSubstr(fact));
  }
  EXPECT_EQ(to_json(sweep)["layouts"].size(), 312U);
}

TEST(LayoutSweep, SharesStagesBetweenAllReplicasAndThoseOfAHost) {
  RunConfig run = gpt2();
  run.batch.global = 32;
  run.parallel.tensor = 2;
  using Stages = std::set<std::pair<int64_t, int64_t>>;
  const auto stages = [&](const LayoutSweep& sweep) {
    Stages found;
    for (const SweptLayout& swept : sweep.fitting) {
      found.emplace(swept.layout.zero, swept.layout.shard);
    }
    return found;
  };
  run.run.device = DeviceChoice::cuda;
  const SweepOptions large = options(32, 80 * kGiB);
  EXPECT_EQ(stages(sweep_stages(run, large)),
            (Stages{{0, 0}, {1, 0}, {1, 4}, {2, 0}, {2, 4}, {3, 0}, {3, 4}}));
  run.parallel.zero = 1;
  run.parallel.shard = 8;
  EXPECT_EQ(stages(sweep_stages(run, large)), (Stages{{0, 0}, {1, 8}, {2, 8}, {3, 8}}));
  RunConfig others = run;
  others.parallel.shard = 4;  // all replicas
  EXPECT_EQ(stages(sweep_stages(others, options(8, 80 * kGiB))),
            (Stages{{0, 0}, {1, 4}, {2, 4}, {3, 4}}));
  others.parallel.shard = 0;
  others.parallel.tensor = 12;  // no host of 8 ranks has whole replicas
  EXPECT_EQ(sweep_stages(others, options(24, 80 * kGiB)).fitting.size(), 4U);
  // A sweep leaves out layouts without 8 replicas to share.
  for (const SweptLayout& swept : sweep_layouts(run, large).fitting) {
    EXPECT_EQ(swept.layout.shard, swept.layout.zero == 0 ? 0 : 8);
    EXPECT_TRUE(swept.layout.zero == 0 || swept.data % 8 == 0);
  }
  const LayoutSweep none = sweep_stages(run, options(32, kGiB));
  EXPECT_TRUE(none.fitting.empty());
  EXPECT_EQ(none.smallest->zero, 3);
  EXPECT_THAT(stages_text(none), HasSubstr("zero 3, shard 8"));
}

TEST(LayoutSweep, ThrowsErrorsThatNoLayoutFixes) {
  RunConfig run = gpt2();
  run.optimizer.warmup_steps = 11;
  EXPECT_THAT(error_of([&] { sweep_layouts(run, options(2, kGiB)); }),
              HasSubstr("optimizer.warmup_steps is 11"));
  EXPECT_THAT(error_of([&] { sweep_layouts(gpt2(), options(0, kGiB)); }),
              HasSubstr("a plan is for 1 to"));
}

RooflineGpu machine(const RunConfig& run, int64_t ranks) {
  return RooflineGpu::measured("H100", run, ranks);
}

TEST(StepTime, IsTheSumOfItsParts) {
  RunConfig run = gpt2();
  run.parallel.tensor = 2;
  run.train.recompute = Recompute::block;
  const Roofline time = roofline(plan_run(run, 8), machine(run, 8));
  const StepSeconds parts = time.parts();
  EXPECT_NEAR(parts.total(), time.seconds(), 1e-12);
  for (const double part : {parts.compute, parts.passes, parts.recompute, parts.tensor}) {
    EXPECT_GT(part, 0.0);
  }
  EXPECT_GT(time.mfu(), 0.1);
  EXPECT_LT(time.mfu(), 0.65);  // products reach no more
}

// The speeds are fitted to one H200, where these runs reached 48.5 and 50.3% (gpu-results.md).
TEST(StepTime, PredictsMeasuredSpeeds) {
  RunConfig run = gpt2();
  run.model.dropout = run.model.attention_dropout = 0.0;
  run.batch = {32, 32};
  run.run.device = DeviceChoice::cuda;
  const auto mfu = [&] {
    return roofline(plan_run(run, 1), RooflineGpu::measured("H200", run, 1)).mfu();
  };
  EXPECT_NEAR(mfu(), 0.485, 0.03);
  run.model.num_layers = 24;
  run.model.hidden_size = 1024;
  run.model.num_heads = 16;
  EXPECT_NEAR(mfu(), 0.503, 0.03);
}

TEST(StepTime, HidesGradientsExceptOnCpus) {
  RunConfig run = gpt2();
  const RunPlan plan = plan_run(run, 4);
  RooflineGpu gpu = machine(run, 4);
  gpu.latency = 0.0;
  const double hidden = roofline(plan, gpu).parts().data;
  run.run.device = DeviceChoice::cpu;
  gpu.overlaps = machine(run, 4).overlaps;
  EXPECT_FALSE(gpu.overlaps);
  const double all = plan.traffic.of("data").bytes_sent() + plan.traffic.of("world").bytes_sent();
  EXPECT_NEAR(roofline(plan, gpu).parts().data, all / gpu.data_bandwidth, 1e-9);
  EXPECT_LT(hidden, 0.5 * all / gpu.data_bandwidth);
}

TEST(StepTime, EachExchangeAddsLatency) {
  RunConfig run = gpt2();
  run.parallel.tensor = 2;
  run.run.device = DeviceChoice::cpu;
  const RunPlan plan = plan_run(run, 8);
  RooflineGpu none = machine(run, 8), with = none;
  none.latency = 0.0;
  with.latency = 1e-3;
  const GroupTraffic& traffic = plan.traffic;
  EXPECT_NEAR(roofline(plan, with).parts().tensor - roofline(plan, none).parts().tensor,
              1e-3 * static_cast<double>(traffic.of("tensor").calls()), 1e-9);
  EXPECT_NEAR(roofline(plan, with).parts().data - roofline(plan, none).parts().data,
              1e-3 * static_cast<double>(traffic.of("data").calls() + traffic.of("world").calls()),
              1e-9);
}

TEST(StepTime, DependsOnTheLayout) {
  RunConfig run = gpt2();
  const auto seconds = [&](int64_t ranks) {
    RooflineGpu gpu = machine(run, ranks);
    gpu.latency = 0.0;
    gpu.tensor_bandwidth = gpu.data_bandwidth = 1e18;
    return roofline(plan_run(run, ranks), gpu).seconds();
  };
  EXPECT_GT(seconds(1), 1.8 * seconds(2));
  const double one = seconds(12);
  run.parallel.tensor = 12;
  run.batch.micro = 2;
  EXPECT_GT(seconds(12), one);  // norms are not split, and products are narrow
  const double replicated = seconds(12);
  run.parallel.sequence = true;
  EXPECT_LT(seconds(12), replicated);
  const double without = seconds(12);
  run.train.recompute = Recompute::activation;
  const double activation = seconds(12);
  run.train.recompute = Recompute::block;
  EXPECT_LT(without, activation);
  EXPECT_LT(activation, seconds(12));
}

TEST(StepTime, SendsOverTheNetworkBetweenHosts) {
  RunConfig run = gpt2();
  run.parallel.tensor = 8;
  EXPECT_EQ(machine(run, 8).data_bandwidth, 300e9);
  EXPECT_EQ(machine(run, 16).data_bandwidth, 40e9);
  EXPECT_EQ(machine(run, 16).tensor_bandwidth, 300e9);
  run.parallel.tensor = 16;
  EXPECT_EQ(machine(run, 16).tensor_bandwidth, 40e9);
}

TEST(HumanText, FormatsAmounts) {
  EXPECT_EQ(human_amount(1.0), "1.00 ");
  EXPECT_EQ(human_amount(999.4), "999 ");
  EXPECT_EQ(human_amount(999.6), "1.00 k");
  EXPECT_EQ(human_amount(40e9), "40.0 G");
  EXPECT_EQ(human_amount(4e14), "400 T");
  EXPECT_EQ(human_amount(9.996e15), "10.0 P");
}

}  // namespace
}  // namespace tessera
