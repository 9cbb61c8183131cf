#include "launch/train/trainer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <mutex>

#include "core/ops/elementwise.h"
#include "launch/data/training_data.h"
#include "parallel/communicators/thread/thread_communicator.h"
#include "parallel/process_grid.h"
#include "tests/support/expect_error.h"
#include "tests/support/runs/small_runs.h"
#include "tests/support/runs/training_world.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

using test::Layout;
using test::SmallKind;

/// Everything that a step may change.
struct Weights {
  explicit Weights(const OptimizerState& state)
      : values(test::copy_of(state.store().flat_values())),
        masters(test::copy_of(all_of(state).master)),
        exp_avg(test::copy_of(all_of(state).exp_avg)),
        exp_avg_sq(test::copy_of(all_of(state).exp_avg_sq)) {}

  void expect_same(const OptimizerState& state) const {
    test::expect_same_bits(state.store().flat_values(), values.tensor, "values");
    test::expect_same_bits(all_of(state).master, masters.tensor, "masters");
    test::expect_same_bits(all_of(state).exp_avg, exp_avg.tensor, "exp_avg");
    test::expect_same_bits(all_of(state).exp_avg_sq, exp_avg_sq.tensor, "exp_avg_sq");
  }

  static OptimizerShard all_of(const OptimizerState& state) {
    return state.ranges_by([](const Parameter&) { return 0; }).at(0).shard;
  }

  OwnedTensor values, masters, exp_avg, exp_avg_sq;
};

const Parameter& named(const Trainer& trainer, const std::string& name) {
  for (const Parameter& parameter : trainer.parameters().parameters()) {
    if (parameter.name == name) return parameter;
  }
  throw Error("no parameter " + name);
}

void set(const Trainer& trainer, const std::string& name, double value) {
  const Parameter& parameter = named(trainer, name);
  fill(trainer.optimizer_state().of(parameter).master, value);
  fill(parameter.real_part(parameter.value()), value);
}

class TrainerSteps : public testing::Test {
 protected:
  TrainerSteps() { test::write_small_data(folder_); }

  RunConfig config(SmallKind kind = SmallKind::gpt) const {
    return test::small_run(folder_, "run", kind);
  }

  /// Calls `use` on each rank with an initialized trainer.
  template <typename Use>
  void train(RunConfig run, Layout layout, Use&& use) const {
    run.parallel.tensor = layout.tensor;
    run_thread_ranks(layout.ranks(), [&](Communicator& world) {
      const ParallelGroups groups = make_parallel_groups(world, run.grid_shape());
      Trainer trainer(run, groups, open_training_data(run));
      trainer.initialize();
      use(trainer);
    });
  }

  /// Runs a step, lets `damage` change a weight, and runs three more steps before it asks for the
  /// result. Expects that step 2 has failed and that no weight has changed since.
  template <typename Damage>
  void expect_failure(const RunConfig& run, Layout layout, const char* what,
                      Damage&& damage) const {
    SCOPED_TRACE(to_string(layout));
    train(run, layout, [&](Trainer& trainer) {
      trainer.step();
      EXPECT_TRUE(std::isfinite(trainer.result().loss()));
      damage(trainer);
      const Weights before(trainer.optimizer_state());
      for (int i = 0; i < 3; ++i) trainer.step();
      before.expect_same(trainer.optimizer_state());
      const std::string of_step = std::string("the ") + what + " of step 2 is ";
      const auto fails = [&](auto&& call) {
        test::expect_error(call, {of_step.c_str(), "Training stopped before it changed a weight"});
      };
      fails([&] { trainer.result(); });
      fails([&] { trainer.save(); });
      fails([&] { trainer.evaluate(); });
      EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
      before.expect_same(trainer.optimizer_state());
    });
  }

  test::TestFolder folder_;
};

constexpr Layout kLayouts[] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}};

TEST_F(TrainerSteps, NonFiniteLossChangesNoWeights) {
  for (const Layout layout : kLayouts) {
    for (const SmallKind kind : {SmallKind::gpt, SmallKind::bert_pairs}) {
      expect_failure(config(kind), layout, "loss",
                     [](Trainer& trainer) { set(trainer, "blocks.1.mlp_norm.weight", kNaN); });
    }
  }
}

TEST_F(TrainerSteps, NonFiniteGradientChangesNoWeights) {
  for (const Layout layout : kLayouts) {
    expect_failure(config(), layout, "gradient norm", [](Trainer& trainer) {
      // The zeros hide the large numbers from the loss, but not from their own gradient.
      set(trainer, "blocks.0.attention_norm.weight", 1e37);
      set(trainer, "blocks.0.attention.qkv.weight", 0.0);
      set(trainer, "blocks.0.attention.qkv.bias", 0.0);
      set(trainer, "blocks.0.attention.output.weight", 1e20);
    });
  }
}

/// A step with NaN in a weight, which is then as before.
void bad_step(Trainer& trainer) {
  const Tensor weight = named(trainer, "blocks.1.mlp_norm.weight").value();
  const OwnedTensor kept = test::copy_of(weight);
  fill(weight, kNaN);
  trainer.step();
  copy(kept.tensor, weight);
}

TEST_F(TrainerSteps, SkipsAsManyNonFiniteStepsAsAllowed) {
  for (const Layout layout : kLayouts) {
    SCOPED_TRACE(to_string(layout));
    RunConfig run = config();
    run.run.dir = folder_ / to_string(layout);
    run.train.max_skipped_steps = 2;
    std::filesystem::path saved;
    std::mutex mutex;
    train(run, layout, [&](Trainer& trainer) {
      trainer.step();
      EXPECT_EQ(trainer.result().note, "");
      const Weights before(trainer.optimizer_state());
      bad_step(trainer);
      before.expect_same(trainer.optimizer_state());
      const StepResult skipped = trainer.result();
      EXPECT_EQ(skipped.skipped_steps, 1);
      EXPECT_NE(skipped.note.find("Step 2 was skipped, because its loss was NaN: 1 of at most 2 "
                                  "(train.max_skipped_steps)"),
                std::string::npos)
          << skipped.note;
      bad_step(trainer);
      trainer.step();
      const StepResult late = trainer.result();
      EXPECT_TRUE(std::isfinite(late.loss()));
      EXPECT_EQ(late.skipped_steps, 2);
      EXPECT_NE(late.note.find("Step 3 was skipped"), std::string::npos) << late.note;
      const SavedCheckpoint checkpoint = trainer.save();
      const std::lock_guard lock(mutex);
      saved = checkpoint.path;
    });
    // The resumed run counts on.
    run_thread_ranks(layout.ranks(), [&](Communicator& world) {
      run.parallel.tensor = layout.tensor;
      const ParallelGroups groups = make_parallel_groups(world, run.grid_shape());
      Trainer trainer(run, groups, open_training_data(run));
      Checkpoint checkpoint = Checkpoint::open(saved);
      trainer.restore(checkpoint);
      trainer.step();
      EXPECT_EQ(trainer.result().note, "");
      bad_step(trainer);
      test::expect_error(
          [&] { trainer.result(); },
          {"the loss of step 6 is NaN, and train.max_skipped_steps allows no more than 2"});
      RunConfig fewer = run;
      fewer.train.max_skipped_steps = 1;
      Trainer strict(fewer, groups, open_training_data(fewer));
      test::expect_error([&] { strict.restore(checkpoint); }, {"the run has skipped 2 steps until ",
                                                               "train.max_skipped_steps is 1: "
                                                               "choose 2 or more"});
    });
  }
}

TEST_F(TrainerSteps, LateResultCoversAllSteps) {
  constexpr int64_t kSteps = 4;
  RunConfig run = config(SmallKind::bert_pairs);
  const int64_t places = run.batch.global * run.model.seq_length;
  for (const Layout layout : kLayouts) {
    SCOPED_TRACE(to_string(layout));
    run.parallel.tensor = layout.tensor;
    run_thread_ranks(layout.ranks(), [&](Communicator& world) {
      const ParallelGroups groups = make_parallel_groups(world, run.grid_shape());
      Trainer asked(run, groups, open_training_data(run)),
          unasked(run, groups, open_training_data(run));
      asked.initialize();
      unasked.initialize();
      int64_t tokens = 0;
      StepResult each;
      for (int64_t i = 0; i < kSteps; ++i) {
        unasked.step();
        asked.step();
        each = asked.result();
        EXPECT_EQ(each.step, i + 1);
        EXPECT_EQ(each.steps, 1);
        EXPECT_EQ(each.padded_tokens, places);
        tokens += each.tokens;
      }
      const StepResult late = unasked.result();
      Weights(asked.optimizer_state()).expect_same(unasked.optimizer_state());
      EXPECT_EQ(late.step, kSteps);
      EXPECT_EQ(late.losses.token, each.losses.token);
      EXPECT_EQ(late.losses.document, each.losses.document);
      EXPECT_EQ(late.grad_norm, each.grad_norm);
      EXPECT_EQ(late.lr, each.lr);
      EXPECT_EQ(late.steps, kSteps);
      EXPECT_EQ(late.tokens, tokens);
      EXPECT_EQ(late.padded_tokens, kSteps * places);
      EXPECT_GT(late.seconds, 0.0);
      EXPECT_EQ(late.seconds_per_step(), late.seconds / kSteps);
    });
  }
}

TEST_F(TrainerSteps, SaysOnceThatStepsHaveNoTargets) {
  test::write_documents(folder_ / "ones", std::vector<std::vector<int32_t>>(300, {7}));
  RunConfig run = config(SmallKind::gpt_documents);
  run.data.train = folder_ / "ones";
  run.data.eval_fraction = 0.0;
  train(run, {1, 2}, [](Trainer& trainer) {
    trainer.step();
    const StepResult first = trainer.result();
    EXPECT_EQ(first.loss(), 0.0);
    EXPECT_NE(first.note.find("No token or text of step 1 has a target"), std::string::npos);
    trainer.step();
    EXPECT_EQ(trainer.result().note, "");
  });
  train(config(), {1, 2}, [](Trainer& trainer) {
    trainer.step();
    EXPECT_EQ(trainer.result().note, "");
  });
}

TEST_F(TrainerSteps, HasNoResultBeforeFirstStep) {
  train(config(), {1, 1}, [](Trainer& trainer) {
    test::expect_error([&] { trainer.result(); }, {"there is no result: no step has run"});
    trainer.step();
    trainer.result();
    test::expect_error([&] { trainer.local_result(); }, {"there is no result: no step has run"});
  });
}

TEST_F(TrainerSteps, LocalResultDoesNotThrow) {
  train(config(), {2, 1}, [](Trainer& trainer) {
    set(trainer, "blocks.1.mlp_norm.weight", kNaN);
    trainer.step();
    EXPECT_TRUE(std::isnan(trainer.local_result().loss()));
    trainer.step();
    test::expect_error([&] { trainer.result(); }, {"the loss of step 1 is NaN"});
    trainer.initialize();
    trainer.step();
    EXPECT_TRUE(std::isfinite(trainer.result().loss()));
  });
}

// The gradient norm and AdamW include them.
TEST_F(TrainerSteps, GradientsOfPaddingAndGapsAreZero) {
  for (const Layout layout : {Layout{1, 1}, Layout{2, 1}, Layout{4, 1}, Layout{2, 2}}) {
    for (const SmallKind kind : {SmallKind::gpt, SmallKind::bert_pairs, SmallKind::bert_packed,
                                 SmallKind::classifier, SmallKind::multi_label, SmallKind::words}) {
      train(config(kind), layout, [](Trainer& trainer) {
        trainer.step();
        const ParameterStore& store = trainer.parameters();
        const OwnedTensor rest = test::copy_of(store.flat_grads());
        int64_t count = store.flat_size();
        for (const Parameter& parameter : store.parameters()) {
          const int64_t real = parameter.real_shape().numel();
          fill(rest.tensor.slice(parameter.offset, parameter.offset + real), 0.0);
          count -= real;
        }
        EXPECT_GT(count, 0);
        for (const float grad : rest.tensor.span<float>()) ASSERT_EQ(grad, 0.0f);
      });
    }
  }
}

}  // namespace
}  // namespace tessera
