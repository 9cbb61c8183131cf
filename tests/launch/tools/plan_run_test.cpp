#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <functional>
#include <map>
#include <set>

#include "core/ops/cross_entropy.h"
#include "launch/data/training_data.h"
#include "launch/tools/plan/dry_step.h"
#include "launch/tools/plan/run_plan.h"
#include "launch/train/trainer.h"
#include "models/architecture.h"
#include "models/attention_plane.h"
#include "models/output_rows.h"
#include "parallel/communicators/thread/thread_communicator.h"
#include "parallel/meta_communicator.h"
#include "tests/launch/config/support.h"
#include "tests/support/runs/counting_communicator.h"
#include "tests/support/runs/small_runs.h"

namespace tessera {
namespace {

using test::SmallKind;
using testing::ElementsAre;
using testing::HasSubstr;

struct Grid {
  int tensor, data;
  int ranks() const { return tensor * data; }
};

constexpr Grid kGrids[] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {1, 4}};

/// Rows of a full batch: no padding, one document per row.
class FullRows : public Dataset {
 public:
  explicit FullRows(const RunConfig& config) : model_(config.model) {
    const TargetCounts counts = full_batch_counts(config);
    targets_ = counts.token_targets / config.batch.global;
    has_labels_ = counts.document_targets > 0;
  }

  int64_t num_samples() const override { return 64; }
  int64_t seq_length() const override { return traits_of(model_).row_length; }
  void fill(int64_t sample, int64_t /*epoch*/, Sample& out) const override {
    out.clear();
    const ModelTraits traits = traits_of(model_);
    const int64_t classes = traits.token_labels ? model_.num_labels : model_.vocab_size;
    for (int64_t i = 0; i < traits.row_length; ++i) {
      const auto token = static_cast<int32_t>((sample + 7 * i) % model_.vocab_size);
      const auto target = static_cast<int32_t>(token % classes);
      out.tokens.push_back(token);
      out.targets.push_back(i < targets_of(sample) ? target : kIgnoreTarget);
    }
    const auto documents = static_cast<size_t>(std::max<int64_t>(1, traits.texts_of_sample));
    out.document_lengths.assign(documents, static_cast<int32_t>(model_.seq_length));
    if (has_labels_) {
      out.labels.assign(documents, kIgnoreTarget);
      const int64_t labels = model_.symmetric_loss ? 2 : 1;
      std::fill_n(out.labels.begin(), labels, static_cast<int32_t>(sample % 2));
    }
    out.label_values.assign(static_cast<size_t>(traits.label_width), 1.0f);
    out.patches.assign(static_cast<size_t>(traits.row_length * traits.patch_width), 0.5f);
    if (traits.source_length == 0) return;
    for (int64_t i = 0; i < traits.source_length; ++i) {
      out.source_tokens.push_back(static_cast<int32_t>((sample + 5 * i) % model_.vocab_size));
    }
    out.source_lengths.assign(1, static_cast<int32_t>(traits.source_length));
  }

 protected:
  virtual int64_t targets_of(int64_t /*sample*/) const { return targets_; }

  ModelConfig model_;

 private:
  int64_t targets_;
  bool has_labels_;
};

/// Full rows that need as much memory as any. Within three steps, each rank has a micro-batch in
/// which all tokens have a target, one in which all but one have, and one of which the last block
/// chooses half of the rows (models/output_rows.h).
class LargestRows final : public FullRows {
 public:
  explicit LargestRows(const RunConfig& config) : FullRows(config), batch_(config.batch) {}
  bool has_order() const override { return true; }

 protected:
  int64_t targets_of(int64_t sample) const override {
    switch ((sample % batch_.global / batch_.micro + sample / batch_.global) % 3) {
      case 0:
        return model_.seq_length;
      case 1:
        return model_.seq_length - (sample % batch_.micro == 0 ? 1 : 0);
      default:
        return model_.seq_length / 2 - (read_by_heads(model_).first_tokens ? 1 : 0);
    }
  }

 private:
  BatchSection batch_;
};

class PlanRun : public testing::Test {
 protected:
  /// A configuration. Its folder holds no data.
  RunConfig config(Grid grid, SmallKind kind = SmallKind::gpt) const {
    RunConfig run = test::small_run(folder_, "run", kind);
    run.parallel.tensor = grid.tensor;
    return run;
  }

  /// Runs a step on thread ranks and expects each rank's exchanges to match the plan.
  static void expect_traffic(const RunConfig& run, Grid grid) {
    SCOPED_TRACE(fmt::format("{} tensor x {} data", grid.tensor, grid.data));
    const RunPlan plan = plan_run(run, grid.ranks());
    run_thread_ranks(grid.ranks(), [&](Communicator& world) {
      test::CountingGroups counting(world, run.grid_shape());
      Trainer trainer(run, counting.groups, {std::make_shared<FullRows>(run), nullptr, nullptr});
      trainer.initialize();
      counting.reset();
      trainer.step();
      // With ZeRO, data ranks own different parts of the gradients that tensor ranks reduce for
      // sequence parallelism. The plan describes the first rank.
      for (const auto& [group, tally] : plan.traffic.groups()) {
        if (group == "tensor" && run.parallel.zero > 0 && counting.groups.dp->rank() > 0) continue;
        EXPECT_EQ(counting.tally(group).sums(), tally.sums()) << group;
      }
      const StepResult result = trainer.result();
      EXPECT_EQ(result.tokens, plan.counts.tokens);
      EXPECT_EQ(result.flops, plan.flops);
    });
  }

  test::TestFolder folder_;
};

TEST_F(PlanRun, ExchangesMatchStep) {
  for (const SmallKind kind :
       {SmallKind::gpt, SmallKind::gpt_documents, SmallKind::qwen3, SmallKind::muon,
        SmallKind::bert_pairs, SmallKind::longformer, SmallKind::modernbert, SmallKind::classifier,
        SmallKind::multi_label, SmallKind::words, SmallKind::embeddings, SmallKind::embeddings_cls,
        SmallKind::mean_classifier}) {
    SCOPED_TRACE(to_string(kind));
    for (const Grid grid : kGrids) {
      const RunConfig run = config(grid, kind);
      if (grid.tensor <= run.model.num_heads) expect_traffic(run, grid);
    }
  }
}

TEST_F(PlanRun, ExchangesMatchStepOfContextRanks) {
  for (const SmallKind kind : {SmallKind::gpt, SmallKind::qwen3}) {  // all tokens have targets
    for (const Grid grid : {Grid{1, 2}, Grid{2, 2}, Grid{1, 4}}) {
      if (kind == SmallKind::qwen3 && grid.tensor > 1) continue;  // ranks differ in their heads
      SCOPED_TRACE(to_string(kind));
      RunConfig run = config(grid, kind);
      run.parallel.context = 2;
      run.parallel.sequence = grid.tensor > 1;
      expect_traffic(run, grid);
    }
  }
}

TEST_F(PlanRun, ExchangesMatchStepWithZero) {
  for (const Grid grid : {Grid{1, 2}, Grid{2, 2}, Grid{1, 4}}) {
    for (const int64_t zero : {1, 2, 3}) {
      SCOPED_TRACE(fmt::format("zero {}", zero));
      RunConfig run = config(grid);
      run.parallel.zero = zero;
      expect_traffic(run, grid);
      run.run.precision = DType::bf16;
      expect_traffic(run, grid);
      const GroupTraffic traffic = plan_run(run, grid.ranks()).traffic;
      EXPECT_TRUE(
          traffic.of("data").sums().contains({Traffic::gradients, Collective::reduce_scatter}));
      EXPECT_TRUE(traffic.of("data").sums().contains({Traffic::weights, Collective::all_gather}));
    }
  }
  RunConfig hybrid = config({1, 4});
  hybrid.parallel.zero = 3;
  hybrid.parallel.shard = 2;
  expect_traffic(hybrid, {1, 4});
}

/// The blocks with ops between start and wait of each transfer for `purpose`, in the order of the
/// starts: "blocks.3", with all others joined to it if there are several.
std::vector<std::string> blocks_behind(const WorkLog& work, std::string_view purpose) {
  std::map<size_t, std::set<std::string>> open;
  std::map<size_t, std::string> found;
  for (const WorkLog::Event& event : work.events()) {
    if (event.kind == WorkLog::Event::Kind::op) {
      const size_t begin = event.range.find("blocks.");
      if (begin == std::string::npos) continue;
      const std::string block =
          event.range.substr(begin, event.range.find_first_of("/ ", begin) - begin);
      for (auto& [transfer, blocks] : open) blocks.insert(block);
    } else if (work.transfers()[event.transfer].purpose != purpose) {
      continue;
    } else if (event.kind == WorkLog::Event::Kind::start) {
      open[event.transfer] = {};
    } else {
      found[event.transfer] = fmt::format("{}", fmt::join(open[event.transfer], "+"));
      open.erase(event.transfer);
    }
  }
  std::vector<std::string> in_order;
  for (const auto& [transfer, blocks] : found) in_order.push_back(blocks);
  return in_order;
}

// Without a clock: which block computes while the weights of the next one are gathered and the
// gradients of the one before are summed.
TEST_F(PlanRun, BlocksComputeWhileOthersAreGatheredAndReduced) {
  RunConfig run = config({1, 2});
  run.model.num_layers = 5;
  run.batch.micro = run.batch.global / 2;
  run.parallel.zero = 3;
  const RunPlan plan = plan_run(run, 2);
  // Five in the forward pass; the backward pass finds the last two. The rest is the step's end:
  // embeddings and head.
  std::vector<std::string> gathers = blocks_behind(*plan.work, to_string(Traffic::weights));
  ASSERT_GE(gathers.size(), 8U);
  gathers.resize(8);
  EXPECT_THAT(gathers, testing::ElementsAre("", "blocks.0", "blocks.1", "blocks.2", "blocks.3",
                                            "blocks.3", "blocks.2", "blocks.1"));
  const std::vector<std::string> sums = blocks_behind(*plan.work, to_string(Traffic::gradients));
  for (const char* block : {"blocks.0", "blocks.1", "blocks.2", "blocks.3"}) {
    EXPECT_THAT(sums, testing::Contains(block));
  }
}

TEST_F(PlanRun, ExchangesOfMuonMatchStepWithZero) {
  for (const Grid grid : {Grid{1, 3}, Grid{2, 2}, Grid{4, 2}}) {
    RunConfig run = config(grid, SmallKind::muon);
    run.batch.global = 12;
    run.parallel.zero = 1;
    expect_traffic(run, grid);
    run.run.precision = DType::bf16;
    expect_traffic(run, grid);
    const GroupTraffic traffic = plan_run(run, grid.ranks()).traffic;
    EXPECT_TRUE(
        traffic.of("data").sums().contains({Traffic::optimizer, Collective::reduce_scatter}));
    EXPECT_TRUE(traffic.of("data").sums().contains({Traffic::optimizer, Collective::all_gather}));
  }
}

TEST_F(PlanRun, ExchangesMatchStepWithSequenceParallelism) {
  for (const SmallKind kind : {SmallKind::gpt, SmallKind::bert_pairs, SmallKind::classifier}) {
    SCOPED_TRACE(to_string(kind));
    for (const Grid grid : {Grid{2, 1}, Grid{2, 2}, Grid{4, 1}}) {
      RunConfig run = config(grid, kind);
      run.parallel.sequence = true;
      expect_traffic(run, grid);
      run.parallel.zero = 1;
      run.train.recompute = Recompute::block;
      expect_traffic(run, grid);
    }
  }
}

TEST_F(PlanRun, ExchangesMatchStepWithRecompute) {
  for (const Recompute recompute : {Recompute::activation, Recompute::block}) {
    RunConfig run = config({2, 2});
    run.train.recompute = recompute;
    run.run.precision = DType::bf16;
    expect_traffic(run, {2, 2});
  }
}

// Shoeybi et al. (2019): a layer has two all-reduces of (tokens, hidden_size) in the forward pass
// and two in the backward pass.
TEST_F(PlanRun, ExchangesMatchMegatron) {
  const RunConfig run = config({2, 2});
  const GroupTraffic traffic = plan_run(run, 4).traffic;
  const int64_t micro_batches = 8 / 2 / 2;
  const int64_t tokens = 2 * run.model.seq_length;
  const int64_t states = tokens * run.model.hidden_size * int64_t{sizeof(float)};
  const auto of = [&](Traffic what) {
    return traffic.of("tensor").sums().at({what, Collective::all_reduce});
  };
  const int64_t calls = micro_batches * 2 * run.model.num_layers;
  EXPECT_EQ(of(Traffic::forward), (TrafficTally::Sum{calls, calls * states}));
  EXPECT_EQ(of(Traffic::backward), (TrafficTally::Sum{calls, calls * states}));
  EXPECT_EQ(of(Traffic::embedding), (TrafficTally::Sum{micro_batches, micro_batches * states}));
  // The maximum; the sum and the target's logit; the gradient of the states.
  EXPECT_EQ(of(Traffic::loss),
            (TrafficTally::Sum{3 * micro_batches, micro_batches * (3 * 4 * tokens + states)}));
  EXPECT_FALSE(traffic.of("tensor").sums().contains({Traffic::recompute, Collective::all_reduce}));
}

/// Configurations that cover most combinations of the options that affect memory.
std::vector<RunConfig> memory_configs(const std::function<RunConfig(Grid, SmallKind)>& config) {
  std::vector<RunConfig> configs;
  int count = 0;
  for (const SmallKind kind : {SmallKind::gpt, SmallKind::bert_pairs, SmallKind::classifier}) {
    for (const Grid grid : kGrids) {
      for (const Recompute recompute : {Recompute::none, Recompute::activation, Recompute::block}) {
        for (const DType precision : {DType::f32, DType::bf16}) {
          RunConfig run = config(grid, kind);
          run.run.precision = precision;
          run.train.recompute = recompute;
          run.parallel.zero = (count + count / 4) % (grid.data > 1 ? 4 : 2);
          run.parallel.sequence = grid.tensor > 1 && count / 2 % 2 == 1;
          const bool rounds = grid.data > 1 && count / 4 % 2 == 1;
          run.parallel.grad_reduce_dtype = rounds ? DType::bf16 : DType::f32;
          run.checkpoint.background = count / 4 % 2 == 0;
          run.checkpoint.interval = 5;
          run.batch.micro = count / 8 % 2 + 1;
          configs.push_back(run);
          ++count;
        }
      }
    }
  }
  return configs;
}

/// Expects `lines` to be within 2% of the plan, which describes the first rank. Another one may
/// have fewer rows of activations, such as none of a document's first token. Its checkpoint copy
/// may differ by some kilobytes: it may have fewer vocabulary rows or, with ZeRO, pieces of more
/// parameters, each aligned separately. Copies here have only some 100 KB.
void expect_lines(const MemoryPlan& plan, const std::vector<MemoryPlan::Line>& lines,
                  bool of_first_rank = true) {
  ASSERT_EQ(lines.size(), plan.lines.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i].what, plan.lines[i].what);
    const auto planned = static_cast<double>(plan.lines[i].bytes);
    const auto found = static_cast<double>(lines[i].bytes);
    const bool may_differ = !of_first_rank && lines[i].what == kCheckpointCopyLine;
    const bool may_be_less = may_differ || (!of_first_rank && lines[i].what == "activations");
    EXPECT_LE(found, 1.02 * planned + (may_differ ? 8192 : 0)) << lines[i].what;
    if (!may_be_less) {
      EXPECT_GE(found, 0.98 * planned) << lines[i].what;
    }
  }
}

std::string describe(const RunConfig& run) {
  return fmt::format(
      "{} labels {} tensor {} recompute {} {} zero {} sequence {} background {} micro {}",
      to_string(run.model.kind), run.model.num_labels, run.parallel.tensor,
      to_string(run.train.recompute), to_string(run.run.precision), run.parallel.zero,
      run.parallel.sequence, run.checkpoint.background, run.batch.micro);
}

TEST_F(PlanRun, ReducingGradientsInBf16SendsHalf) {
  for (const int64_t zero : {0, 1}) {
    for (const Grid grid : {Grid{1, 2}, Grid{2, 2}, Grid{1, 4}}) {
      RunConfig run = config(grid);
      run.parallel.zero = zero;
      const RunPlan whole = plan_run(run, grid.ranks());
      run.parallel.grad_reduce_dtype = DType::bf16;
      const RunPlan half = plan_run(run, grid.ranks());
      const double sent = whole.traffic.of("data").bytes_sent(Traffic::gradients);
      EXPECT_GT(sent, 0.0);
      EXPECT_EQ(2.0 * half.traffic.of("data").bytes_sent(Traffic::gradients), sent);
      EXPECT_EQ(half.traffic.of("data").calls(), whole.traffic.of("data").calls());
      EXPECT_EQ(half.traffic.of("data").bytes_sent(Traffic::weights),
                whole.traffic.of("data").bytes_sent(Traffic::weights));
      EXPECT_GT(half.memory.total(), whole.memory.total());
    }
  }
}

/// Trains three steps and evaluates, on all ranks of the grid.
void expect_plan_matches_run(const RunConfig& run, Grid grid) {
  const MemoryPlan planned = plan_run(run, grid.ranks()).memory;
  run_thread_ranks(grid.ranks(), [&](Communicator& world) {
    const ParallelGroups groups = make_parallel_groups(world, run.grid_shape());
    const auto rows = std::make_shared<LargestRows>(run);
    Trainer trainer(run, groups, {rows, rows, nullptr});
    trainer.initialize();
    for (int step = 0; step < 3; ++step) trainer.step();  // throws if the arena does not suffice
    trainer.evaluate();
    expect_lines(planned, trainer.memory_in_use(), world.rank() == 0);
    expect_lines(planned, trainer.memory().lines, world.rank() == 0);
    if (world.rank() == 0) {
      EXPECT_EQ(trainer.memory().local_parameters, planned.local_parameters);
    }
  });
}

TEST_F(PlanRun, MemoryMatchesRunOfEachOptimizer) {
  for (const OptimizerName name :
       {OptimizerName::adamw, OptimizerName::lion, OptimizerName::muon}) {
    for (const Grid grid : {Grid{1, 1}, Grid{1, 4}, Grid{2, 2}, Grid{4, 1}}) {
      for (const int64_t zero : {0, 1, 3}) {
        RunConfig run = config(grid, SmallKind::gpt);
        run.optimizer.name = name;
        run.optimizer.eps = OptimizerSection().eps;
        run.parallel.zero = grid.data > 1 ? zero : std::min<int64_t>(zero, 1);
        run.run.precision = zero == 0 ? DType::f32 : DType::bf16;
        run.optimizer.ema_decay = name == OptimizerName::muon || zero == 0 ? 0.9 : 0.0;
        run.checkpoint.interval = 5;
        run.optimizer.moment_dtype = grid.tensor == 1   ? DType::bf16
                                     : grid.tensor == 2 ? DType::u8
                                                        : DType::f32;
        SCOPED_TRACE(
            fmt::format("{}, {} data ranks, {}", to_string(name), grid.data, describe(run)));
        expect_plan_matches_run(run, grid);
      }
    }
  }
}

TEST_F(PlanRun, OptimizersWithOneMomentNeedLessMemory) {
  RunConfig run = config({1, 1}, SmallKind::muon);
  run.optimizer.eps = OptimizerSection().eps;
  std::map<OptimizerName, size_t> moments;
  for (const OptimizerName name :
       {OptimizerName::adamw, OptimizerName::lion, OptimizerName::muon}) {
    run.optimizer.name = name;
    const RunPlan plan = plan_run(run, 1);
    for (const MemoryPlan::Line& line : plan.memory.lines) {
      if (line.what == "moments") moments[name] = line.bytes;
    }
    EXPECT_EQ(plan.muon_flops() > 0.0, name == OptimizerName::muon);
  }
  EXPECT_EQ(2 * moments[OptimizerName::lion], moments[OptimizerName::adamw]);
  EXPECT_LT(moments[OptimizerName::lion], moments[OptimizerName::muon]);
  EXPECT_LT(moments[OptimizerName::muon], moments[OptimizerName::adamw]);
}

TEST_F(PlanRun, MomentsInFewBitsNeedLessMemory) {
  for (const OptimizerName name :
       {OptimizerName::adamw, OptimizerName::lion, OptimizerName::muon}) {
    RunConfig run = config({1, 2});
    run.model.hidden_size = 256;  // most parameters have 4096 elements or more
    run.optimizer.name = name;
    run.optimizer.eps = OptimizerSection().eps;
    run.parallel.zero = 1;
    std::map<DType, size_t> moments;
    for (const DType dtype : {DType::f32, DType::bf16, DType::u8}) {
      run.optimizer.moment_dtype = dtype;
      for (const MemoryPlan::Line& line : plan_run(run, 2).memory.lines) {
        if (line.what == "moments") moments[dtype] = line.bytes;
      }
    }
    EXPECT_GT(moments[DType::bf16], 0u);
    EXPECT_EQ(2 * moments[DType::bf16], moments[DType::f32]);
    EXPECT_LT(moments[DType::u8], moments[DType::bf16]);
  }
}

// 5 steps of Newton-Schulz for an m × n matrix, m ≤ n, take 5 (4 m² n + 2 m³) FLOPs. Two ranks have
// about half each.
TEST_F(PlanRun, RanksShareProductsOfMuon) {
  RunConfig run = config({1, 1}, SmallKind::gpt);
  run.optimizer.name = OptimizerName::muon;
  const double h = 32.0;  // the width; the MLP has four times as many columns
  const auto flops = [](double m, double n) { return 5.0 * (4.0 * m * m * n + 2.0 * m * m * m); };
  const double layer = 4.0 * flops(h, h) + 2.0 * flops(h, 4.0 * h);
  EXPECT_DOUBLE_EQ(plan_run(run, 1).muon_flops(), 2.0 * layer);
  EXPECT_DOUBLE_EQ(plan_run(run, 2).muon_flops(), layer);
}

/// Every kind with its own defaults, the options of a block, and every head.
struct PlannedModel {
  const char* name;
  ModelKind kind;
  void (*change)(ModelConfig&);
};

constexpr PlannedModel kPlannedModels[] = {
    {"gpt2", ModelKind::gpt2, [](ModelConfig&) {}},
    {"llama", ModelKind::llama, [](ModelConfig&) {}},
    {"mistral", ModelKind::mistral, [](ModelConfig& model) { model.attention_window = 5; }},
    {"qwen2", ModelKind::qwen2, [](ModelConfig& model) { model.num_kv_heads = 2; }},
    {"qwen3", ModelKind::qwen3, [](ModelConfig& model) { model.num_kv_heads = 2; }},
    {"bert", ModelKind::bert, [](ModelConfig& model) { model.token_types = 2; }},
    {"roberta", ModelKind::roberta, [](ModelConfig& model) { model.token_types = 1; }},
    {"modernbert", ModelKind::modernbert, [](ModelConfig& model) { model.attention_window = 5; }},
    {"prefix", ModelKind::gpt2, [](ModelConfig& model) { model.attention_prefix = 5; }},
    {"global tokens and dilation", ModelKind::bert,
     [](ModelConfig& model) {
       model.attention_window = 3;
       model.attention_dilation = 2;
       model.global_tokens = 2;
     }},
    {"mask file", ModelKind::gpt2,
     [](ModelConfig& model) {
       const auto plane = std::make_shared<AttentionPlane>();
       plane->values =
           OwnedTensor({model.num_heads, model.seq_length, model.seq_length}, DType::f32);
       model.attention_plane = plane;
       model.attention_mask_file = "mask.safetensors";
     }},
    {"alibi", ModelKind::llama, [](ModelConfig& model) { model.positions = Positions::alibi; }},
    {"relative", ModelKind::llama,
     [](ModelConfig& model) {
       model.positions = Positions::relative;
       model.attention_scale = 1.0;
     }},
    {"relative, both directions", ModelKind::bert,
     [](ModelConfig& model) { model.positions = Positions::relative; }},
    {"yarn", ModelKind::qwen3,
     [](ModelConfig& model) {
       model.rotary.scaling = RotaryScaling::yarn;
       model.rotary.factor = 4.0;
       model.rotary.original_length = 8;
     }},
    {"biases in attention, dropout", ModelKind::llama,
     [](ModelConfig& model) {
       model.bias = Bias::attention;
       model.dropout = model.attention_dropout = 0.1;
     }},
    {"norm of the embeddings", ModelKind::llama,
     [](ModelConfig& model) {
       model.embedding_norm = true;
       model.norm_position = NormPosition::post;
     }},
    {"sentence pairs", ModelKind::bert,
     [](ModelConfig& model) {
       model.token_types = 2;
       model.next_sentence = true;
     }},
    {"classification", ModelKind::modernbert,
     [](ModelConfig& model) {
       model.head = Head::classification;
       model.num_labels = 3;
     }},
    {"sets of labels", ModelKind::roberta,
     [](ModelConfig& model) {
       model.head = Head::classification;
       model.num_labels = 5;
       model.problem_type = ProblemType::multi_label_classification;
     }},
    {"number", ModelKind::bert,
     [](ModelConfig& model) {
       model.head = Head::classification;
       model.num_labels = 1;
       model.problem_type = ProblemType::regression;
     }},
    {"encoder-decoder", ModelKind::encoder_decoder,
     [](ModelConfig& model) {
       model.num_decoder_layers = 3;
       model.source_length = 24;
       model.dropout = model.attention_dropout = 0.1;
     }},
    {"encoder-decoder, as T5", ModelKind::encoder_decoder,
     [](ModelConfig& model) {
       model.positions = Positions::relative;
       model.num_kv_heads = 2;
       model.norm = NormType::rms;
       model.bias = Bias::none;
     }},
    {"T5", ModelKind::t5,
     [](ModelConfig& model) {
       model.num_decoder_layers = 3;
       model.source_length = 24;
       model.dropout = model.attention_dropout = 0.1;
     }},
    {"T5 v1.1", ModelKind::t5,
     [](ModelConfig& model) {
       model.gated_mlp = true;
       model.activation = Activation::gelu_tanh;
       model.tie_embeddings = model.scaled_logits = false;
       model.dropout = 0.1;
     }},
    {"ViT", ModelKind::vit,
     [](ModelConfig& model) {
       model.head = Head::classification;
       model.num_labels = 5;
       model.image_size = 24;
       model.num_channels = 3;
       model.patch_size = 6;
       model.seq_length = model.image_tokens();
       model.vocab_size = 1;
     }},
    {"labels of words", ModelKind::bert,
     [](ModelConfig& model) {
       model.head = Head::token_classification;
       model.num_labels = 4;
     }},
};

TEST_F(PlanRun, MemoryOfEveryModelMatchesRun) {
  std::set<ModelKind> kinds;
  for (const PlannedModel& planned : kPlannedModels) {
    kinds.insert(planned.kind);
    for (const Grid grid : {Grid{1, 1}, Grid{2, 2}}) {
      for (const DType precision : {DType::f32, DType::bf16}) {
        SCOPED_TRACE(fmt::format("{}, {} ranks, {}", planned.name, grid.ranks(),
                                 precision == DType::bf16 ? "bf16" : "fp32"));
        RunConfig run = config(grid);
        const ModelConfig sizes = run.model;
        apply_preset(run.model, planned.kind);
        planned.change(run.model);
        if (run.model.has_images()) run.data.tokenizer = "none";
        run.run.precision = precision;
        run.parallel.zero = grid.data > 1 ? 3 : 0;
        run.parallel.sequence = grid.tensor > 1 && precision == DType::f32;
        ASSERT_EQ(run.model.hidden_size, sizes.hidden_size);
        expect_plan_matches_run(run, grid);
      }
    }
  }
  EXPECT_EQ(kinds.size(), architectures().size());
}

TEST_F(PlanRun, TrafficAndFlopsOfEncoderDecoderMatchRun) {
  for (const Grid grid : {Grid{1, 1}, Grid{2, 1}, Grid{1, 2}, Grid{2, 2}}) {
    for (const bool sequence : {false, true}) {
      if (sequence && grid.tensor == 1) continue;
      RunConfig run = config(grid);
      apply_preset(run.model, ModelKind::encoder_decoder);
      run.model.num_decoder_layers = 3;
      run.model.source_length = 24;
      run.parallel.sequence = sequence;
      expect_traffic(run, grid);
    }
  }
}

TEST_F(PlanRun, MemoryMatchesRunLineByLine) {
  const auto make = [&](Grid grid, SmallKind kind) { return config(grid, kind); };
  const std::vector<RunConfig> configs = memory_configs(make);
  for (size_t i = 0; i < configs.size(); ++i) {
    const RunConfig& run = configs[i];
    const Grid grid = kGrids[i / 6 % std::size(kGrids)];
    SCOPED_TRACE(fmt::format("{} data ranks, {}", grid.data, describe(run)));
    ASSERT_EQ(grid.tensor, run.parallel.tensor);
    expect_plan_matches_run(run, grid);
  }
}

// Activations of 4 context ranks take little more than a quarter of those of one rank.
TEST_F(PlanRun, MemoryMatchesRunOfContextRanks) {
  std::vector<size_t> activations;
  for (const Grid grid : {Grid{1, 1}, Grid{1, 2}, Grid{2, 2}, Grid{1, 4}}) {
    for (const SmallKind kind : {SmallKind::bert_pairs, SmallKind::words, SmallKind::gpt}) {
      SCOPED_TRACE(fmt::format("{} tensor {} context {}", to_string(kind), grid.tensor, grid.data));
      RunConfig run = config(grid, kind);
      run.parallel.context = grid.data;
      run.parallel.sequence = grid.tensor > 1;
      expect_plan_matches_run(run, grid);
      if (kind == SmallKind::gpt)
        activations.push_back(plan_run(run, grid.ranks()).memory.arena_bytes);
    }
  }
  EXPECT_LT(activations.back(), 0.4 * static_cast<double>(activations.front()));
}

// The plan is for the micro-batch that needs the most memory. BERT's rows have few targets,
// and their padding is left out.
TEST_F(PlanRun, MemorySufficesForRunOnText) {
  test::write_small_data(folder_);
  for (const SmallKind kind : {SmallKind::gpt_documents, SmallKind::bert_pairs,
                               SmallKind::bert_packed, SmallKind::classifier}) {
    SCOPED_TRACE(to_string(kind));
    const RunConfig run = config({1, 2}, kind);
    const MemoryPlan planned = plan_run(run, 2).memory;
    run_thread_ranks(2, [&](Communicator& world) {
      const ParallelGroups groups = make_parallel_groups(world);
      Trainer trainer(run, groups, open_training_data(run));
      trainer.initialize();
      for (int step = 0; step < 5; ++step) trainer.step();
      trainer.evaluate();
      std::vector<MemoryPlan::Line> used = trainer.memory_in_use();
      for (size_t i = 0; i < used.size(); ++i) {
        if (used[i].what != "activations") continue;
        EXPECT_LE(used[i].bytes, planned.lines[i].bytes);
        used[i].bytes = planned.lines[i].bytes;
      }
      expect_lines(planned, used);
    });
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
int64_t mapped_bytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t pages = 0;
  statm >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

// Each buffer has its own mapping, so the address space grows by the size of a trainer's buffers.
TEST_F(PlanRun, MemoryMatchesTrainerAllocation) {
  const auto make = [&](Grid grid, SmallKind kind) {
    RunConfig run = config(grid, kind);
    run.model.num_layers = 4;
    run.model.hidden_size = 256;
    run.model.seq_length = 64;
    run.model.vocab_size = 3001;
    return run;
  };
  const std::vector<RunConfig> configs = memory_configs(make);
  for (size_t i = 0; i < configs.size(); ++i) {
    RunConfig run = configs[i];
    run.batch = {64, 8};
    const Grid grid = kGrids[i / 6 % std::size(kGrids)];
    SCOPED_TRACE(fmt::format("{} data ranks, {}", grid.data, describe(run)));
    const auto data = std::make_shared<FullRows>(run);
    const MetaGroups meta(grid.ranks(), run.grid_shape(), grid.ranks() - 1);
    const auto allocated = [&] {
      const int64_t before = mapped_bytes();
      const Trainer trainer(run, meta.groups(), {data, nullptr, nullptr});
      return static_cast<double>(mapped_bytes() - before);
    };
    allocated();  // grows the heap beforehand
    const auto planned = static_cast<double>(plan_run(run, grid.ranks()).memory.total());
    // Pages are rounded up, and norm, clip and batches need some extra bytes.
    EXPECT_NEAR(allocated(), planned, 0.02 * planned);
  }
}
#endif

TEST_F(PlanRun, GroupsCoverAllParameters) {
  for (const SmallKind kind :
       {SmallKind::gpt, SmallKind::gpt_documents, SmallKind::qwen3, SmallKind::bert_pairs,
        SmallKind::modernbert, SmallKind::classifier, SmallKind::multi_label, SmallKind::words,
        SmallKind::embeddings, SmallKind::embeddings_cls, SmallKind::mean_classifier}) {
    const RunPlan plan = plan_run(config({2, 1}, kind), 2);
    int64_t global = 0, local = 0;
    for (const ParameterGroup& group : plan.parameters) {
      global += group.global;
      local += group.local;
    }
    EXPECT_EQ(global, plan.memory.global_parameters);
    EXPECT_EQ(local, plan.memory.local_parameters);
  }
}

TEST_F(PlanRun, ParametersMatchGpt2Paper) {
  RunConfig run = config({1, 1});
  run.model = test::gpt2_model();
  std::vector<int64_t> global, local;
  const int64_t c = 768;
  run.parallel.tensor = 2;
  for (const ParameterGroup& group : plan_run(run, 2).parameters) {
    global.push_back(group.global);
    local.push_back(group.local);
  }
  EXPECT_THAT(global, ElementsAre((50257 + 1024) * c, 12 * (4 * c * c + 4 * c),
                                  12 * (8 * c * c + 5 * c), 25 * 2 * c, 0));
  // A row-parallel layer's bias is replicated. The first rank has slightly more than half of the
  // vocabulary, since the rows of a rank are a multiple of the alignment.
  EXPECT_EQ(local[1], 12 * (4 * c * c / 2 + 3 * c / 2 + c));
  EXPECT_EQ(local[2], 12 * (8 * c * c / 2 + 4 * c / 2 + c));
  EXPECT_EQ(local[3], global[3]);
}

TEST_F(PlanRun, CountsFlopsOfFullBatch) {
  RunConfig run = config({1, 1}, SmallKind::bert_pairs);
  const TargetCounts counts = full_batch_counts(run);
  EXPECT_EQ(counts.tokens, 8 * 16);
  EXPECT_EQ(counts.token_targets, 8 * 2);  // 0.15 × 16 = 2.4
  EXPECT_EQ(counts.document_targets, 8);
  EXPECT_EQ(counts.pairs, 8 * 16 * 16);
  EXPECT_EQ(plan_run(run, 1).recompute_flops, 0.0);
  run.train.recompute = Recompute::block;
  // Forward pass of two layers of width 32: 2 FLOPs per weight and token, 4 × width per pair.
  // Behind the last attention, only for targets and first tokens.
  EXPECT_EQ(plan_run(run, 1).recompute_flops,
            2.0 * (32 * 32 * (12 * 128 + 3 * 128 + 9 * 24) + 4 * 32 * 2048));
}

TEST_F(PlanRun, NamesAllBrokenRules) {
  RunConfig run = config({5, 1});
  run.optimizer.warmup_steps = 21;
  const std::vector<BrokenRule> broken = broken_rules(run, 4);
  ASSERT_EQ(broken.size(), 2U);
  EXPECT_THAT(broken[0].message, HasSubstr("but the run has 4 ranks"));
  EXPECT_EQ(broken[0].key, "parallel.tensor");
  EXPECT_EQ(broken[0].value, 5);
  EXPECT_THAT(broken[1].message, HasSubstr("model.num_heads is 4: more tensor ranks than heads"));

  run = config({1, 1});
  run.optimizer.warmup_steps = 21;
  const std::vector<BrokenRule> others = broken_rules(run, 3);
  ASSERT_EQ(others.size(), 1U);
  EXPECT_EQ(others[0].key, "batch.global");
  const std::vector<BrokenRule> last = broken_rules(run, 1);
  ASSERT_EQ(last.size(), 1U);
  EXPECT_EQ(last[0].key, "");
  EXPECT_THAT(last[0].message, HasSubstr("optimizer.warmup_steps is 21"));
  EXPECT_TRUE(broken_rules(config({2, 2}), 4).empty());
}

TEST_F(PlanRun, RejectsInvalidRankCounts) {
  for (const int64_t ranks : {int64_t{0}, int64_t{-1}, kMaxRanks + 1, INT64_MAX}) {
    EXPECT_THAT(error_of([&] {
                  plan_run(config({1, 1}), ranks);
                }),
                HasSubstr("a plan is for 1 to 1000000 ranks"));
  }
}

TEST_F(PlanRun, ReportsAllParts) {
  const RunPlan plan = plan_run(config({2, 2}, SmallKind::classifier), 4);
  const std::string text = to_string(plan);
  for (const char* fact : {"4 = 2 data × 2 tensor", "embeddings", "heads", "activations",
                           "FLOP a step", "2 tensor", "forward", "all_reduce", "2(n-1)/n"}) {
    EXPECT_THAT(text, HasSubstr(fact));
  }
  const Json json = to_json(plan);
  EXPECT_EQ(json["ranks"], 4);
  EXPECT_EQ(json["memory"]["bytes"], plan.memory.total());
  EXPECT_EQ(json["parameters"]["rank"], plan.memory.local_parameters);
  EXPECT_EQ(json["step"]["flops"], plan.flops);
  double sent = 0.0;
  for (const Json& exchange : json["communication"]["exchanges"]) {
    sent += exchange["bytes_sent"].get<double>();
  }
  EXPECT_DOUBLE_EQ(sent, json["communication"]["bytes_sent"].get<double>());
}

}  // namespace
}  // namespace tessera
