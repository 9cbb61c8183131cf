// The exponential moving average of the weights (optimizer.ema_decay).

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "core/error.h"
#include "core/ops/elementwise.h"
#include "launch/data/training_data.h"
#include "launch/train/optimizer/optimizer.h"
#include "launch/train/trainer.h"
#include "parallel/communicators/thread/thread_communicator.h"
#include "parallel/process_grid.h"
#include "tests/support/expect_error.h"
#include "tests/support/runs/device_ranks.h"
#include "tests/support/runs/small_runs.h"
#include "tests/support/runs/training_world.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using test::Layout;

constexpr double kDecay = 0.75;

/// Every tensor of a training state, by name.
class TrainingState {
 public:
  explicit TrainingState(const OptimizerState& state) {
    for_each(state, [&](const std::string& name, const Tensor& tensor) {
      copies_[name] = test::copy_of(tensor);
    });
  }

  void expect_same(const OptimizerState& state) const {
    for_each(state, [&](const std::string& name, const Tensor& tensor) {
      test::expect_same_bits(tensor, copies_.at(name).tensor, name.c_str());
    });
  }

  const Tensor& operator[](const std::string& name) const { return copies_.at(name).tensor; }

 private:
  template <typename Visit>
  static void for_each(const OptimizerState& state, const Visit& visit) {
    for (const Parameter& parameter : state.store().parameters()) {
      const bool whole = state.store().keeps_values(parameter);
      visit(parameter.name, whole ? parameter.value() : state.of(parameter).value);
      const OptimizerShard& own = state.of(parameter);
      if (parameter.frozen || own.elements.empty()) continue;
      visit(parameter.name + "/master", own.master);
      visit(parameter.name + "/exp_avg", own.exp_avg);
      if (own.exp_avg_sq.defined()) visit(parameter.name + "/exp_avg_sq", own.exp_avg_sq);
      if (own.ema.defined()) visit(parameter.name + "/ema", own.ema);
    }
  }

  std::map<std::string, test::TestTensor> copies_;
};

/// A store with an average of its weights, of which one is frozen, and its optimizer.
class AveragedStore {
 public:
  AveragedStore(const OptimizerSection& settings, DType precision,
                const ParallelGroups& groups = test::one_rank())
      : arena_(kCpu, size_t{1} << 20) {
    ParameterSpec matrix{"matrix", {7, 33}, {}, Init::normal(1.0f), /*decay=*/true};
    matrix.matrices = WeightMatrices{};
    store.declare({"table", {50, 33}, {}, Init::normal(1.0f), /*decay=*/true});
    store.declare(matrix);
    store.declare({"frozen", {33}, {}, Init::normal(1.0f)});
    store.declare({"norm", {33}, {}, Init::ones()});
    store.freeze([](const Parameter& p) { return p.name == "frozen"; });
    store.allocate(kCpu, precision, StoreFor::training,
                   {groups.shards->size(), groups.shards->rank(), /*bucket_elements=*/300});
    state.emplace(store, state_spec(settings));
    state->initialize(1);
    optimizer.emplace(settings, *state, groups, /*seed=*/5);
  }

  void step(double scale = 1.0) {
    auto next = static_cast<float>(steps_done);
    for (Parameter& parameter : store.parameters()) {
      if (parameter.frozen) continue;
      for (float& x : parameter.grad().span<float>()) x = std::sin(next += 0.7f);
    }
    const OwnedTensor grad_scale({1}, DType::f32);
    fill(grad_scale.tensor, scale);
    optimizer->step(steps_done++, /*lr=*/0.1, grad_scale.tensor, &arena_);
  }

  ParameterStore store;
  std::optional<OptimizerState> state;
  std::optional<Optimizer> optimizer;
  int64_t steps_done = 0;

 private:
  Arena arena_;
};

class EmaOfOptimizer : public testing::TestWithParam<OptimizerName> {
 protected:
  static OptimizerSection settings(DType precision) {
    OptimizerSection settings;
    settings.name = GetParam();
    settings.ema_decay = kDecay;
    settings.stochastic_rounding = precision == DType::bf16;
    return settings;
  }
};

TEST_P(EmaOfOptimizer, FollowsTheMasters) {
  for (const DType precision : {DType::f32, DType::bf16}) {
    AveragedStore run(settings(precision), precision);
    std::map<std::string, std::vector<double>> expected;
    for (const Parameter& p : run.store.parameters()) {
      expected[p.name] = test::to_doubles(run.state->of(p).master);
    }
    for (int step = 0; step < 5; ++step) {
      run.step();
      for (const Parameter& p : run.store.parameters()) {
        if (p.frozen) continue;
        const auto weights = test::to_doubles(run.state->of(p).master);
        std::vector<double>& average = expected[p.name];
        for (size_t i = 0; i < weights.size(); ++i) {
          average[i] = kDecay * average[i] + (1.0 - kDecay) * weights[i];
        }
      }
    }
    for (const Parameter& p : run.store.parameters()) {
      const OptimizerShard& own = run.state->of(p);
      EXPECT_EQ(own.ema.defined(), !p.frozen);
      if (p.frozen) continue;
      EXPECT_EQ(own.ema.numel(), own.master.numel());
      test::expect_close(own.ema, expected[p.name], 5 * 4 * 0x1p-24, p.name.c_str());
    }
    const TrainingState before(*run.state);
    run.step(std::nan(""));  // skipped
    before.expect_same(*run.state);
  }
}

// Elements are treated alike, so owners have the bits of the whole. Exchanged with the weights, the
// average is published like them, and nothing has changed afterwards.
TEST_P(EmaOfOptimizer, IsExchangedAndShardedBitForBit) {
  for (const DType precision : {DType::f32, DType::bf16}) {
    for (const bool rounds : {false, true}) {
      OptimizerSection how = settings(precision);
      how.stochastic_rounding = rounds && precision == DType::bf16;
      if (GetParam() == OptimizerName::muon) how.ns_steps = 1;
      AveragedStore whole(how, precision);
      for (int step = 0; step < 3; ++step) whole.step();
      const TrainingState before(*whole.state);
      whole.optimizer->swap_average();
      whole.optimizer->round_values(whole.steps_done);
      const TrainingState averaged(*whole.state);
      for (const char* name : {"table", "norm"}) {
        const std::string n = name;
        test::expect_same_bits(averaged[n + "/master"], before[n + "/ema"], name);
        if (how.stochastic_rounding) continue;
        const test::TestTensor rounded(before[n].shape(), precision);
        copy(before[n + "/ema"], rounded.tensor.view({rounded.tensor.numel()}));
        test::expect_same_bits(averaged[n], rounded.tensor, name);
      }
      whole.optimizer->swap_average();
      whole.optimizer->round_values(whole.steps_done);
      before.expect_same(*whole.state);

      run_thread_ranks(3, [&](Communicator& world) {
        const ParallelGroups groups =
            make_parallel_groups(world, {.shards = GridShape::kAllReplicas});
        AveragedStore run(how, precision, groups);
        for (int step = 0; step < 3; ++step) run.step();
        const TrainingState own(*run.state);
        const auto expect_values = [&](const TrainingState& of) {
          for (const Parameter& p : run.store.parameters()) {
            test::expect_same_bits(p.value(), of[p.name], p.name.c_str());
            const Range mine = run.state->of(p).elements;
            if (p.frozen || mine.empty()) continue;
            test::expect_same_bits(run.state->of(p).ema,
                                   of[p.name + "/ema"].slice(mine.begin, mine.end), "ema");
          }
        };
        expect_values(before);
        run.optimizer->swap_average();
        run.optimizer->round_values(run.steps_done);
        expect_values(averaged);
        run.optimizer->swap_average();
        run.optimizer->round_values(run.steps_done);
        own.expect_same(*run.state);
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, EmaOfOptimizer,
                         testing::Values(OptimizerName::adamw, OptimizerName::lion,
                                         OptimizerName::muon),
                         [](const auto& instance) {
                           return std::string(to_string(instance.param));
                         });

class EmaOfRun : public testing::Test {
 protected:
  EmaOfRun() { test::write_small_data(folder_); }

  RunConfig config(DType precision, double decay = kDecay) const {
    RunConfig run = test::small_run(folder_, fmt::format("run{}", to_string(precision)));
    run.run.precision = precision;
    run.optimizer.ema_decay = decay;
    run.parallel.zero = 3;
    return run;
  }

  /// Calls `use` on each rank with its groups.
  template <typename Use>
  static void on_ranks(RunConfig& run, Layout layout, const Use& use) {
    run.parallel.tensor = layout.tensor;
    run_thread_ranks(layout.ranks(), [&](Communicator& world) {
      use(make_parallel_groups(world, run.grid_shape()));
    });
  }

  test::TestFolder folder_;
};

// The loss is that of a run which starts with the average as its weights.
TEST_F(EmaOfRun, IsEvaluatedInPlaceOfTheWeights) {
  for (const DType precision : {DType::f32, DType::bf16}) {
    for (const Layout layout : {Layout{1, 1}, Layout{2, 2}}) {
      RunConfig run = config(precision);
      std::filesystem::remove_all(run.run.dir);
      on_ranks(run, layout, [&](const ParallelGroups& groups) {
        Trainer trainer(run, groups, open_training_data(run));
        trainer.initialize();
        EXPECT_EQ(trainer.evaluate().ema_losses->total(), trainer.evaluate().losses.total());
        for (int step = 0; step < 4; ++step) trainer.step();
        const TrainingState before(trainer.optimizer_state());
        const Evaluation found = trainer.evaluate();
        before.expect_same(trainer.optimizer_state());
        EXPECT_NE(found.ema_losses->total(), found.losses.total());

        Checkpoint saved = Checkpoint::open(trainer.save().path);
        saved.use_average();
        Trainer other(run, groups, open_training_data(run));
        EXPECT_EQ(other.start_from(saved), "");
        EXPECT_EQ(other.evaluate().losses.total(), found.ema_losses->total());
      });
    }
  }
}

TEST_F(EmaOfRun, BeginsOrEndsWhereTheRunContinues) {
  RunConfig without = config(DType::bf16, 0.0), with = config(DType::bf16);
  on_ranks(without, {1, 2}, [&](const ParallelGroups& groups) {
    Trainer trainer(without, groups, open_training_data(without));
    trainer.initialize();
    trainer.step();
    Checkpoint plain = Checkpoint::open(trainer.save().path);
    EXPECT_FALSE(plain.has_average());
    test::expect_error([&] { plain.use_average(); },
                       {"--ema", "step_00000001 has none", "optimizer.ema_decay"});

    Trainer begins(with, groups, open_training_data(with));
    begins.restore(plain);
    for (const Parameter& p : begins.parameters().parameters()) {
      const OptimizerShard& own = begins.optimizer_state().of(p);
      test::expect_same_bits(own.ema, own.master, "average");
    }
    begins.step();
    Checkpoint averaged = Checkpoint::open(begins.save().path);
    EXPECT_TRUE(averaged.has_average());

    Trainer ends(without, groups, open_training_data(without));
    ends.restore(averaged);
    EXPECT_EQ(ends.evaluate().ema_losses, std::nullopt);
    ends.step();
    EXPECT_FALSE(Checkpoint::open(ends.save().path).has_average());
  });
}

/// Another dataset whose samples are damaged after a number of reads.
class DamagedLater final : public Dataset {
 public:
  explicit DamagedLater(std::shared_ptr<const Dataset> whole) : whole_(std::move(whole)) {}

  int64_t num_samples() const override { return whole_->num_samples(); }
  int64_t seq_length() const override { return whole_->seq_length(); }
  void fill(int64_t sample, int64_t epoch, Sample& out) const override {
    require(reads++ < most_reads, "sample {} is damaged", sample);
    whole_->fill(sample, epoch, out);
  }

  mutable std::atomic<int64_t> reads = 0;
  std::atomic<int64_t> most_reads = INT64_MAX;

 private:
  std::shared_ptr<const Dataset> whole_;
};

TEST_F(EmaOfRun, ErrorLeavesTheWeightsInTheirPlace) {
  for (const DType precision : {DType::f32, DType::bf16}) {
    RunConfig run = config(precision);
    on_ranks(run, {2, 2}, [&](const ParallelGroups& groups) {
      TrainingData data = open_training_data(run);
      const auto eval = std::make_shared<DamagedLater>(data.eval);
      data.eval = eval;
      Trainer trainer(run, groups, data);
      trainer.initialize();
      for (int step = 0; step < 3; ++step) trainer.step();
      trainer.evaluate();
      const int64_t reads = eval->reads;
      const TrainingState before(trainer.optimizer_state());
      eval->reads = 0;
      eval->most_reads = reads / 2 + 1;  // the second pass fails
      test::expect_error([&] { trainer.evaluate(); }, {"is damaged"});

      Checkpoint saved = Checkpoint::open(trainer.save().path);
      before.expect_same(trainer.optimizer_state());
      Trainer other(run, groups, data);
      other.restore(saved);
      before.expect_same(other.optimizer_state());
    });
  }
}

}  // namespace
}  // namespace tessera
