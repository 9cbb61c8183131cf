#include "launch/tools/plan/roofline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/metrics/model_flops.h"
#include "launch/tools/plan/dry_step.h"
#include "launch/tools/plan/run_plan.h"
#include "parallel/layers/partition.h"
#include "tests/support/expect_error.h"
#include "tests/support/runs/small_runs.h"

namespace tessera {
namespace {

using test::expect_error;
using test::SmallKind;
using testing::ElementsAre;
using testing::HasSubstr;

/// One FLOP/s of each kind, one byte/s of memory and of links.
RooflineGpu unit_gpu() { return {{"unit", 1.0, 1.0, 1.0, 2.0}, 1.0, 1.0}; }

Roofline roofline(const RunConfig& run, int64_t ranks, const RooflineGpu& gpu) {
  return roofline(plan_run(run, ranks), gpu);
}

bool is_attention(const RooflineLine& line) { return line.op.starts_with("attention_"); }

double matmul_flops(const Roofline& bound, bool of_attention) {
  double flops = 0.0;
  for (const RooflineLine& line : bound.lines) {
    if (is_attention(line) == of_attention) flops += line.work.matmul_flops;
  }
  return flops;
}

double bytes(const Roofline& bound) {
  double sum = 0.0;
  for (const RooflineLine& line : bound.lines) sum += line.work.bytes();
  return sum;
}

const RooflineLine* find(const Roofline& bound, std::string_view part, std::string_view op) {
  for (const RooflineLine& line : bound.lines) {
    if (line.part == part && line.op == op) return &line;
  }
  return nullptr;
}

class RooflineOfRun : public testing::Test {
 protected:
  RunConfig config(SmallKind kind = SmallKind::gpt) const {
    RunConfig run = test::small_run(folder_, "run", kind);
    run.run.precision = DType::bf16;
    return run;
  }

  test::TestFolder folder_;
};

/// What model_flops() counts besides attention, with the vocabulary's padding, for which a rank
/// computes too, and the document head's last layer, which model_flops() neglects.
double flops_of_linear_layers(const RunConfig& run) {
  RunConfig padded = run;
  const int tensor = static_cast<int>(run.parallel.tensor);
  padded.model.vocab_size = tensor * partition_vocab(run.model.vocab_size, tensor, 0).padded;
  TargetCounts counts = full_batch_counts(run);
  counts.pairs = 0;
  const auto labels =
      static_cast<double>(run.model.head == Head::classification ? run.model.num_labels : 2);
  return model_flops(padded.model, counts) + 6.0 * static_cast<double>(run.model.hidden_size) *
                                                 labels *
                                                 static_cast<double>(counts.document_targets);
}

TEST_F(RooflineOfRun, ProductsOfLinearLayersMatchModelFlops) {
  for (const SmallKind kind : {SmallKind::gpt, SmallKind::gpt_documents, SmallKind::gpt_packed,
                               SmallKind::qwen3, SmallKind::bert_pairs, SmallKind::bert_packed,
                               SmallKind::modernbert, SmallKind::classifier}) {
    SCOPED_TRACE(to_string(kind));
    const RunConfig run = config(kind);
    EXPECT_EQ(matmul_flops(roofline(run, 1, unit_gpu()), false), flops_of_linear_layers(run));
  }
}

// A third of the FLOPs of the blocks between the first and the last are weight gradients, in bf16.
TEST_F(RooflineOfRun, Fp8MultipliesCodesInInnerBlocks) {
  RunConfig run = config();
  run.model.num_layers = 5;
  run.model.hidden_size = run.model.mlp_size = 128;
  const auto of_blocks = [&](int layers) {
    RunConfig other = run;
    other.model.num_layers = layers;
    return flops_of_linear_layers(other);
  };
  RooflineGpu gpu = unit_gpu();
  const Roofline without = roofline(run, 1, gpu);
  run.run.precision = Precision::with_fp8();
  expect_error([&] { roofline(run, 1, gpu); }, {"run.precision is fp8"});
  gpu.peaks.fp8 = 2.0;
  const Roofline with = roofline(run, 1, gpu);
  EXPECT_EQ(matmul_flops(with, false), matmul_flops(without, false));
  double of_codes = 0.0;
  for (const RooflineLine& line : with.lines) {
    if (line.op != "linear_fp8") continue;
    of_codes += line.work.matmul_flops;
    EXPECT_EQ(line.of_flops, line.work.matmul_flops / 2.0);
  }
  EXPECT_NEAR(of_codes, (of_blocks(5) - of_blocks(2)) * 2.0 / 3.0, 1.0);
  EXPECT_DOUBLE_EQ(with.mfu() * with.seconds(), without.mfu() * without.seconds());
}

TEST_F(RooflineOfRun, TensorRanksShareProducts) {
  RunConfig run = config();
  run.parallel.tensor = 2;
  const Roofline bound = roofline(run, 4, unit_gpu());
  EXPECT_EQ(matmul_flops(bound, false), flops_of_linear_layers(run) / 4.0);
}

// model_flops() counts 12 × width FLOPs per pair: 2 products forward and 4 backward. The backward
// pass has a fifth, which computes the scores again. Hidden pairs are not computed.
TEST_F(RooflineOfRun, ProductsOfAttentionMatchVisiblePairs) {
  const auto flops_per_pair = [&](const RunConfig& run) {
    const auto layers_and_width = static_cast<double>(run.model.num_layers * run.model.hidden_size);
    const auto rows = static_cast<double>(run.batch.global);
    return matmul_flops(roofline(run, 1, unit_gpu()), true) / (14.0 * layers_and_width * rows);
  };
  EXPECT_EQ(flops_per_pair(config(SmallKind::bert_pairs)), 16.0 * 16.0);
  EXPECT_EQ(flops_per_pair(config(SmallKind::gpt)), 16.0 * 17.0 / 2.0);
  EXPECT_EQ(flops_per_pair(config(SmallKind::gpt_documents)),
            1 + 2 + 3 + 4 + 5.0 * 12);  // window 5
}

TEST_F(RooflineOfRun, RecomputationAddsForwardPassOfBlocks) {
  RunConfig run = config(SmallKind::bert_pairs);
  const Roofline without = roofline(run, 1, unit_gpu());
  run.train.recompute = Recompute::block;
  const Roofline with = roofline(run, 1, unit_gpu());
  const auto all = [](const Roofline& bound) {
    return matmul_flops(bound, false) + matmul_flops(bound, true);
  };
  EXPECT_EQ(all(with) - all(without), recompute_flops(run, full_batch_counts(run)));
  const RooflineLine* attention = find(with, "recompute/attention", "attention_forward");
  ASSERT_NE(attention, nullptr);
  EXPECT_EQ(attention->work, find(without, "attention", "attention_forward")->work);
}

TEST_F(RooflineOfRun, RecomputationOfGeluAddsNoProducts) {
  RunConfig run = config();
  const Roofline without = roofline(run, 1, unit_gpu());
  run.train.recompute = Recompute::activation;
  const Roofline with = roofline(run, 1, unit_gpu());
  EXPECT_EQ(matmul_flops(with, false), matmul_flops(without, false));
  const RooflineLine* again = find(with, "mlp backward", "activation_forward");
  ASSERT_NE(again, nullptr);
  const int64_t micro_batches = 4, elements = 2 * 16 * 4 * 32;
  EXPECT_EQ(again->calls, micro_batches * run.model.num_layers);
  EXPECT_EQ(again->work.bytes(), static_cast<double>(again->calls * 2 * 2 * elements));
  // The forward pass reads what it has just written.
  EXPECT_EQ(bytes(with) - bytes(without), again->work.bytes() * 1.5);
}

TEST_F(RooflineOfRun, CountsEveryMicroBatch) {
  for (const int64_t global : {2, 4, 6, 8}) {
    RunConfig run = config();
    run.batch.global = global;
    const Roofline bound = roofline(run, 1, unit_gpu());
    EXPECT_EQ(find(bound, "attention", "attention_forward")->calls,
              global / 2 * run.model.num_layers);
    EXPECT_EQ(matmul_flops(bound, false), flops_of_linear_layers(run));
    EXPECT_EQ(find(bound, "optimizer", "adamw_step")->work.matmul_flops, 0.0);
  }
}

// The first micro-batch of a step overwrites gradients, and later ones add to them.
TEST_F(RooflineOfRun, CountsGradientsAsGpusAddThem) {
  RunConfig run = config();
  run.batch.global = run.batch.micro;
  const Roofline one = roofline(run, 1, unit_gpu());
  run.batch.global = 4 * run.batch.micro;
  const Roofline four = roofline(run, 1, unit_gpu());
  const auto bytes_of = [](const Roofline& bound, const char* part, const char* op) {
    const RooflineLine* line = find(bound, part, op);
    return line == nullptr ? 0.0 : line->work.bytes();
  };
  const double layers = 2.0, weights = 2.0 * 4.0 * 32.0 * 32.0, biases = (4 + 1) * 32;
  EXPECT_EQ(bytes_of(four, "mlp backward", "linear_backward_weight_bias") -
                4.0 * bytes_of(one, "mlp backward", "linear_backward_weight_bias"),
            3.0 * 4.0 * layers * (weights + biases));
  for (const Roofline* bound : {&one, &four}) {
    EXPECT_EQ(bytes_of(*bound, "mlp backward", "fill"), 0.0);
    EXPECT_EQ(find(*bound, "step", "fill")->calls, 1);  // losses
  }
}

TEST_F(RooflineOfRun, ExchangesMatchPlan) {
  for (const int tensor : {1, 2, 4}) {
    for (const bool shards : {false, true}) {
      RunConfig run = config();
      run.parallel.tensor = tensor;
      run.parallel.sequence = shards && tensor > 1;
      run.parallel.zero = shards && tensor < 4 ? 1 : 0;
      const Roofline bound = roofline(run, 4, unit_gpu());
      const GroupTraffic traffic = plan_run(run, 4).traffic;
      double sent = 0.0;
      int64_t calls = 0;
      for (const RooflineExchange& exchange : bound.exchanges) {
        sent += exchange.bytes_sent;
        calls += exchange.calls;
        EXPECT_DOUBLE_EQ(exchange.seconds, exchange.bytes_sent);
        EXPECT_LE(exchange.waited, exchange.seconds * (1.0 + 1e-9));
      }
      EXPECT_DOUBLE_EQ(sent, traffic.bytes_sent());
      int64_t planned = 0;
      for (const auto& [group, tally] : traffic.groups()) planned += tally.calls();
      EXPECT_EQ(calls, planned);
    }
  }
}

TEST_F(RooflineOfRun, BackwardPassHidesExchanges) {
  RunConfig run = config();
  run.model = test::gpt2_model();
  run.parallel.tensor = 2;
  run.batch = {16, 8};
  const Roofline bound = roofline(run, 4, RooflineGpu::of("H100"));
  const auto waited = [&](std::string_view purpose) {
    double part = -1.0;
    for (const RooflineExchange& exchange : bound.exchanges) {
      if (exchange.purpose == purpose) part = exchange.waited / exchange.seconds;
    }
    return part;
  };
  EXPECT_NEAR(waited("forward"), 1.0, 1e-6);
  EXPECT_LT(waited("backward"), 0.5);  // weight gradients meanwhile
  // The last bucket has the word embedding, whose gradient ends the backward pass.
  EXPECT_GT(waited("gradients"), 0.1);
  EXPECT_LT(waited("gradients"), 0.6);
  EXPECT_DOUBLE_EQ(bound.seconds(), bound.compute_seconds + bound.waited_seconds);
}

// Everything that is not a product is limited by memory on a GPU.
TEST_F(RooflineOfRun, LinesTellWhatBoundsThem) {
  RunConfig run = config();
  run.model = test::gpt2_model();
  run.batch = {16, 16};
  const Roofline bound = roofline(run, 1, RooflineGpu::of("NVIDIA H100 80GB HBM3"));
  for (const RooflineLine& line : bound.lines) {
    SCOPED_TRACE(line.part + ": " + line.op);
    EXPECT_GT(line.calls, 0);
    EXPECT_GT(line.work.bytes(), 0.0);
    EXPECT_GE(line.seconds, std::max(line.of_flops, line.of_memory) * (1.0 - 1e-9));
    const bool product = line.op.starts_with("linear_") || is_attention(line);
    EXPECT_TRUE(product || !line.bound_by_flops());
  }
  EXPECT_TRUE(find(bound, "attention backward", "attention_backward")->bound_by_flops());
  EXPECT_LT(bound.mfu(), 1.0);
  EXPECT_GT(bound.mfu(), 0.3);
}

TEST_F(RooflineOfRun, PartsAreTheRangesOfLayers) {
  std::vector<std::string> parts;
  for (const RooflineLine& line : roofline(config(), 1, unit_gpu()).lines) {
    if (parts.empty() || parts.back() != line.part) parts.push_back(line.part);
  }
  EXPECT_THAT(parts, ElementsAre("step", "embeddings", "residual", "attention", "residual", "mlp",
                                 "residual", "final norm", "language head", "final norm backward",
                                 "mlp backward", "residual backward", "attention backward",
                                 "embeddings backward", "optimizer"));
}

/// Logs an op of `seconds` FLOPs.
void log_op(WorkLog& log, double seconds) {
  log.enter("op", /*of_op=*/true);
  log.add({.flops = seconds});
  log.leave();
}

TEST(RooflineOfLog, CollectivesRunBesideOpsUntilTheWait) {
  WorkLog log;
  const auto start = [&](const char* group, double seconds) {
    return log.start({group, 2, "gradients", "all_reduce", 0, seconds});
  };
  log_op(log, 1.0);
  const size_t hidden = start("data", 3.0);
  log_op(log, 4.0);
  log.wait(hidden);
  const size_t first = start("data", 3.0), second = start("data", 2.0);  // one after the other
  const size_t other = start("tensor", 4.0);                             // beside them
  log_op(log, 1.0);
  log.wait(first);   // 2 s
  log.wait(second);  // 2 s
  log.wait(other);
  Roofline bound{{}, ProcessGrid(4, {.tensor = 2}), unit_gpu(), {}, {}, {}};
  add_work(log, bound);
  EXPECT_EQ(bound.compute_seconds, 6.0);
  EXPECT_EQ(bound.waited_seconds, 4.0);
  ASSERT_EQ(bound.exchanges.size(), 2u);
  EXPECT_EQ(bound.exchanges[0].calls, 3);
  EXPECT_EQ(bound.exchanges[0].seconds, 8.0);
  EXPECT_EQ(bound.exchanges[0].waited, 4.0);
  EXPECT_EQ(bound.exchanges[1].waited, 0.0);
}

TEST(RooflineOfLog, RepeatsTakeTheirTime) {
  WorkLog log;
  const size_t long_one = log.start({"data", 2, "gradients", "all_reduce", 0, 100.0});
  const size_t first = log.events().size();
  log_op(log, 2.0);
  const size_t transfer = log.start({"tensor", 2, "forward", "all_reduce", 0, 1.0});
  log.wait(transfer);
  log.repeat_since(first, 10);
  log_op(log, 5.0);
  log.wait(long_one);
  Roofline bound{{}, ProcessGrid(4, {.tensor = 2}), unit_gpu(), {}, {}, {}};
  add_work(log, bound);
  EXPECT_EQ(bound.compute_seconds, 25.0);
  EXPECT_EQ(bound.exchanges[1].waited, 10.0);
  EXPECT_EQ(bound.exchanges[0].waited, 100.0 - 35.0);
}

TEST_F(RooflineOfRun, DescribesBound) {
  RunConfig run = config();
  run.parallel.tensor = 2;
  const Roofline bound = roofline(run, 4, RooflineGpu::of("H100"));
  const std::string text = to_string(bound);
  for (const char* fact :
       {"on H100", "4 = 2 data × 2 tensor", "989 TFLOP/s", "3.35 TB/s", "450 GB/s",
        "attention_forward", "bound by", "2 micro-batches of 2", "not a measurement"}) {
    EXPECT_THAT(text, HasSubstr(fact));
  }
  const Json json = to_json(bound);
  EXPECT_EQ(json["ops"].size(), bound.lines.size());
  EXPECT_EQ(json["exchanges"].size(), bound.exchanges.size());
  EXPECT_EQ(json["seconds"], bound.seconds());
  EXPECT_EQ(json["work_of_rank"]["matmul_flops"],
            matmul_flops(bound, false) + matmul_flops(bound, true));
  const std::string page = roofline_markdown({bound, roofline(run, 4, RooflineGpu::of("A100"))});
  EXPECT_THAT(page, HasSubstr("| GB | H100 | A100 |"));
  EXPECT_THAT(page, HasSubstr("| **optimizer** |"));
}

TEST_F(RooflineOfRun, RefusesUnknownGpusAndMissingLinks) {
  EXPECT_THAT(test::error_of([] { RooflineGpu::of("H900"); }),
              HasSubstr("known are those of GB200, B200"));
  EXPECT_NO_THROW(roofline(config(), 1, RooflineGpu::of("L4")));
  EXPECT_THAT(test::error_of([&] { roofline(config(), 2, RooflineGpu::of("L4")); }),
              HasSubstr("L4 has no NVLink"));
}

}  // namespace
}  // namespace tessera
