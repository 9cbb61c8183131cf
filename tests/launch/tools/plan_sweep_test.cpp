#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

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
    EXPECT_EQ(swept.time.total(), predict_time(plan, AssumedMachine()).total());
  }
  // Of 24 sequences, 8, 4, 2 and 1 data ranks have 3, 6, 12 and 24 each, which have 2, 4, 6 and 8
  // divisors. Each micro-batch size comes with three ways to recompute, with and without ZeRO on
  // several data ranks and, on several tensor ranks, with and without sequence parallelism.
  EXPECT_EQ(sweep.broken, 0);
  EXPECT_EQ(std::ssize(sweep.fitting) + sweep.too_large, 2 * 3 * (2 + 2 * 4 + 2 * 6) + 3 * 2 * 8);
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
  EXPECT_EQ(sweep.fitting.size(), 2U * 2U * 3U * 4U);
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
            3 * (2 * 4 + 4 * 6 + 2 * 8));  // divisors of 6, 12 and 24; the last has one data rank
}

TEST(LayoutSweep, ReportsAssumptions) {
  const LayoutSweep sweep = sweep_layouts(gpt2(), options(8, 80 * kGiB));
  const std::string text = to_string(sweep, 5);
  for (const char* fact : {"400 TFLOP/s a rank", "3.30 TB/s of memory bandwidth per rank",
                           "300 GB/s sent to the tensor ranks", "40.0 GB/s sent to the data ranks",
                           "hidden while", "20 us of latency per exchange", "predicted s",
                           "2.0 GiB must stay free", "predictions", "  and 175 more"}) {
    EXPECT_THAT(text, HasSubstr(fact));
  }
  EXPECT_EQ(to_json(sweep)["layouts"].size(), 180U);
}

TEST(LayoutSweep, ThrowsErrorsThatNoLayoutFixes) {
  RunConfig run = gpt2();
  run.optimizer.warmup_steps = 11;
  EXPECT_THAT(error_of([&] { sweep_layouts(run, options(2, kGiB)); }),
              HasSubstr("optimizer.warmup_steps is 11"));
  EXPECT_THAT(error_of([&] { sweep_layouts(gpt2(), options(0, kGiB)); }),
              HasSubstr("a plan is for 1 to"));
}

TEST(StepTime, IsTheSumOfItsParts) {
  RunConfig run = gpt2();
  run.parallel.tensor = 2;
  run.train.recompute = Recompute::block;
  const RunPlan plan = plan_run(run, 8);
  AssumedMachine machine;
  machine.latency = 0.0;
  const PredictedTime time = predict_time(plan, machine);
  const double rank_flops = machine.flops * product_efficiency(run, machine);
  EXPECT_DOUBLE_EQ(time.compute, plan.flops / 8 / rank_flops);
  // Norms and sums of residuals on all tensor ranks, GELUs split over them.
  const double tokens = 12.0 * 24 * 1024 / 4;
  EXPECT_DOUBLE_EQ(time.recompute,
                   plan.recompute_flops / 8 / rank_flops +
                       2.0 * tokens * (10 * 768 + 2 * 3072 / 2) / machine.memory_bandwidth);
  EXPECT_DOUBLE_EQ(time.passes, pass_bytes(plan) / machine.memory_bandwidth);
  EXPECT_DOUBLE_EQ(time.tensor, plan.traffic.tensor.bytes_sent() / 300e9);
  // 3 micro-batches of 2 of a data rank's 6 sequences. The backward pass of the last one hides the
  // gradients' all-reduce.
  const double backward = (2.0 / 3.0 * time.compute + time.recompute) / 3.0;
  const double gradients = plan.traffic.data.bytes_sent(Traffic::gradients) / 40e9;
  EXPECT_NEAR(time.data, std::max(0.0, gradients - backward), 1e-6);

  machine.data_bandwidth = 1e18;
  EXPECT_NEAR(predict_time(plan, machine).data, 0.0, 1e-9);
  machine.data_bandwidth = 1e6;
  const double all = plan.traffic.data.bytes_sent() + plan.traffic.world.bytes_sent();
  EXPECT_NEAR(predict_time(plan, machine).data, all / 1e6 - backward, 1e-6);
}

TEST(StepTime, CpuHidesNoGradientCommunication) {
  RunConfig run = gpt2();
  run.run.device = DeviceChoice::cpu;
  AssumedMachine machine;
  machine.latency = 0.0;
  const RunPlan plan = plan_run(run, 4);
  const double all = plan.traffic.data.bytes_sent() + plan.traffic.world.bytes_sent();
  EXPECT_DOUBLE_EQ(predict_time(plan, machine).data, all / 40e9);
}

TEST(StepTime, EachExchangeAddsLatency) {
  RunConfig run = gpt2();
  run.parallel.tensor = 2;
  run.run.device = DeviceChoice::cpu;
  const RunPlan plan = plan_run(run, 8);
  AssumedMachine none, machine;
  none.latency = 0.0;
  machine.latency = 1e-3;
  const PredictedTime without = predict_time(plan, none), with = predict_time(plan, machine);
  const StepTraffic& traffic = plan.traffic;
  EXPECT_NEAR(with.tensor - without.tensor, 1e-3 * static_cast<double>(traffic.tensor.calls()),
              1e-12);
  EXPECT_NEAR(with.data - without.data,
              1e-3 * static_cast<double>(traffic.data.calls() + traffic.world.calls()), 1e-12);
  int64_t calls = 0;
  for (const auto& [what, sum] : traffic.tensor.sums()) calls += sum.calls;
  EXPECT_EQ(traffic.tensor.calls(), calls);
  EXPECT_EQ(traffic.data.calls(Traffic::gradients),
            traffic.data.sums().at({Traffic::gradients, Collective::all_reduce}).calls);
}

// Checked by hand for a small model.
TEST(StepTime, CountsPassesOverMemory) {
  RunConfig run = gpt2();
  run.model.num_layers = 1;
  run.model.hidden_size = 4;
  run.model.num_heads = 2;
  run.model.seq_length = 3;
  run.model.vocab_size = 320;
  run.model.bias = Bias::none;
  run.batch = {4, 2};
  run.run.precision = DType::f32;
  run.run.device = DeviceChoice::cpu;
  const auto bytes = [&](int64_t ranks) { return pass_bytes(plan_run(run, ranks)); };
  // Weights: words, positions, two norms per block and a final one, and 12 C².
  const double weights = 320 * 4 + 3 * 4 + 3 * 4 + 12 * 16;
  // 12 tokens; norms and residuals 22 C, the GELU 5 × 4 C, the loss 4 V.
  const double activations = 4.0 * 12 * (22 * 4 + 5 * 16 + 4 * 320);
  EXPECT_DOUBLE_EQ(bytes(1), activations + weights * (28 + 4));
  EXPECT_DOUBLE_EQ(bytes(2), activations / 2 + weights * (28 + 4));
  run.parallel.zero = 1;
  EXPECT_DOUBLE_EQ(bytes(2), activations / 2 + weights * (28 + 4) / 2.0);
  run.parallel.zero = 0;
  run.parallel.tensor = 2;
  // Positions and norms are replicated on both tensor ranks.
  const double local = 320 * 4 / 2 + 3 * 4 + 3 * 4 + 12 * 16 / 2;
  EXPECT_DOUBLE_EQ(bytes(2), 4.0 * 12 * (22 * 4 + 5 * 8 + 4 * 160) + local * (28 + 4));
  run.parallel.sequence = true;
  EXPECT_DOUBLE_EQ(bytes(2), 4.0 * 12 * (22 * 4 / 2 + 5 * 8 + 4 * 160) + local * (28 + 4));
}

TEST(StepTime, NarrowShardsAreLessEfficient) {
  RunConfig run = gpt2();
  double last = 1.0;
  for (const int64_t tensor : {1, 2, 4, 12}) {
    run.parallel.tensor = tensor;
    EXPECT_LT(product_efficiency(run, AssumedMachine()), last);
    last = product_efficiency(run, AssumedMachine());
  }
  // The products of the four layers for 2048 tokens on 12 ranks, at 400 TFLOP/s ÷ 3.3 TB/s FLOPs
  // per byte: the forward pass, the input's gradient, and the weights' gradient, which accumulates
  // in fp32.
  const auto time = [](double k, double n) {
    const double m = 2048, of_byte = 400e12 / 3.3e12, rows = m * k + m * n;
    return 3 * k * n + of_byte * (3 * 2 * rows + 2 * 2 * k * n + 8 * k * n) / (2 * m);
  };
  EXPECT_NEAR(last,
              3 * 768.0 * (192 + 64 + 256 + 256) /
                  (time(768, 192) + time(64, 768) + time(768, 256) + time(256, 768)),
              1e-12);
  const double of_two = product_efficiency(run, AssumedMachine());
  run.batch.micro = 1;
  EXPECT_LT(product_efficiency(run, AssumedMachine()), of_two);
}

TEST(StepTime, Fp32HasATenthOfTheFlops) {
  EXPECT_EQ(AssumedMachine::of(DType::bf16).flops, 400e12);
  EXPECT_EQ(AssumedMachine::of(DType::f32).flops, 40e12);
}

TEST(StepTime, RecomputingCostsTime) {
  RunConfig run = gpt2();
  const auto total = [&](Recompute recompute) {
    run.train.recompute = recompute;
    AssumedMachine machine;
    machine.data_bandwidth = 1e18;  // otherwise it may hide the gradients' all-reduce
    return predict_time(plan_run(run, 4), machine).total();
  };
  EXPECT_LT(total(Recompute::none), total(Recompute::activation));
  EXPECT_LT(total(Recompute::activation), total(Recompute::block));
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
