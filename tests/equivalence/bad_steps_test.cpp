#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "core/ops/elementwise.h"
#include "launch/data/training_data.h"
#include "launch/train/diagnosis/document_losses.h"
#include "launch/train/diagnosis/layer_norms.h"
#include "launch/train/diagnosis/step_diagnosis.h"
#include "launch/train/trainer.h"
#include "parallel/communicators/exchange.h"
#include "tests/support/expect_error.h"
#include "tests/support/runs/device_ranks.h"
#include "tests/support/runs/small_runs.h"
#include "tests/support/runs/training_world.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using test::Layout;
using test::SmallKind;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Tensor masters_of(const Trainer& trainer) {
  const auto all = trainer.optimizer_state().ranges_by([](const Parameter&) { return 0; });
  return all.at(0).shard.master;
}

Parameter named(const Trainer& trainer, const std::string& name) {
  for (const Parameter& parameter : trainer.parameters().parameters()) {
    if (parameter.name == name) return parameter;
  }
  throw Error("no parameter " + name);
}

/// Replaces a weight's values for the lifetime of this.
class Replaced {
 public:
  Replaced(const Tensor& value, double with) : value_(value), kept_(test::copy_of(value)) {
    fill(value_, with);
  }
  ~Replaced() { copy(kept_.tensor, value_); }
  Replaced(const Replaced&) = delete;
  Replaced& operator=(const Replaced&) = delete;

 private:
  Tensor value_;
  OwnedTensor kept_;
};

class BadSteps : public testing::Test {
 protected:
  BadSteps() { test::write_small_data(folder_); }

  RunConfig config(SmallKind kind = SmallKind::gpt) const {
    return test::small_run(folder_, "run", kind);
  }

  /// Calls `use(trainer, groups)` on each rank with an initialized trainer on test_device().
  template <typename Use>
  void train(RunConfig run, Layout layout, Use&& use) const {
    SCOPED_TRACE(to_string(layout));
    run.parallel.tensor = layout.tensor;
    test::run_device_ranks(layout.ranks(), [&](Communicator& world) {
      const ParallelGroups groups = make_parallel_groups(world, run.grid_shape());
      Trainer trainer(run, groups, open_training_data(run), test::test_device());
      trainer.initialize();
      use(trainer, groups);
    });
  }

  /// Expects that each rank says that step 1 is finite.
  void expect_finite(const RunConfig& run, Layout layout) const {
    train(run, layout, [](Trainer& trainer, const ParallelGroups&) {
      const StepDiagnosis found = diagnose_step(trainer.parts(), 0, trainer.first_place(1));
      EXPECT_NE(found.text().find("Computed again, the step is finite"), std::string::npos)
          << found.text();
      trainer.step();
      EXPECT_TRUE(std::isfinite(trainer.result().loss()));
    });
  }

  /// Expects that the losses of the documents add up to the step's, and the norms of the layers.
  void expect_sums(const RunConfig& run, Layout layout) const {
    train(run, layout, [](Trainer& trainer, const ParallelGroups& groups) {
      trainer.step();
      trainer.result();
      const std::vector<DocumentLoss> documents =
          document_losses(trainer.parts(), 1, trainer.first_place(2));
      ParameterSquares squares{weight_squares(trainer.optimizer_state(), groups), {}};
      trainer.step();
      const StepResult result = trainer.result();
      squares.gradients = gradient_squares(trainer.optimizer_state(), groups);
      double token = 0.0, document = 0.0, tokens = 0.0, labels = 0.0;
      for (const DocumentLoss& one : documents) {
        EXPECT_FALSE(one.name.empty());
        token += one.losses.token * static_cast<double>(one.token_targets);
        document += one.losses.document * static_cast<double>(one.document_targets);
        tokens += static_cast<double>(one.token_targets);
        labels += static_cast<double>(one.document_targets);
      }
      // Sums of fp32 numbers in another order.
      if (!documents.empty()) {
        EXPECT_NEAR(token / std::max(tokens, 1.0), result.losses.token, 2e-5 * result.loss());
        EXPECT_NEAR(document / std::max(labels, 1.0), result.losses.document, 2e-5 * result.loss());
      }
      double squares_sum = 0.0;
      for (const LayerNorms& layer : layer_norms(trainer.parameters(), squares)) {
        EXPECT_GT(layer.weights, 0.0) << layer.layer;
        squares_sum += layer.gradients * layer.gradients;
      }
      EXPECT_NEAR(std::sqrt(squares_sum), result.grad_norm, 1e-10 * result.grad_norm);
    });
  }

  test::TestFolder folder_;
};

constexpr Layout kLayouts[] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}};

class BadStepsOfKind : public BadSteps, public testing::WithParamInterface<SmallKind> {};

TEST_P(BadStepsOfKind, FindNothingInAFiniteStep) {
  for (const Layout layout : {Layout{1, 1}, Layout{4, 1}, Layout{2, 2}}) {
    expect_finite(config(GetParam()), layout);
  }
  RunConfig run = config(GetParam());
  run.run.precision = DType::bf16;
  run.train.recompute = Recompute::block;
  expect_finite(run, {2, 2});
}

TEST_P(BadStepsOfKind, LossesOfDocumentsAndNormsOfLayersAddUp) {
  for (const Layout layout : {Layout{1, 1}, Layout{2, 2}}) expect_sums(config(GetParam()), layout);
  RunConfig run = config(GetParam());
  run.parallel.zero = 3;
  run.parallel.sequence = true;
  expect_sums(run, {2, 2});
}

INSTANTIATE_TEST_SUITE_P(All, BadStepsOfKind, testing::ValuesIn(test::kSmallKinds),
                         [](const auto& kind) { return test::to_string(kind.param); });

TEST_F(BadSteps, FindNothingInAFiniteStepOnDevices) {
  for (const SmallKind kind : {SmallKind::gpt_packed, SmallKind::bert_pairs, SmallKind::t5}) {
    expect_finite(config(kind), {2, 2});
  }
  RunConfig run = config(SmallKind::qwen3);
  run.run.precision = DType::bf16;
  expect_finite(run, {1, 1});
}

// A token whose embedding is so large that its norm overflows. Only samples that have it fail.
TEST_F(BadSteps, NameSamplesAndFirstTensorOnDevices) {
  constexpr int64_t kToken = 11;
  for (const Layout layout : kLayouts) {
    RunConfig run = config(SmallKind::gpt_documents);
    run.model.tie_embeddings = false;  // the head would have the token, too
    train(run, layout, [&](Trainer& trainer, const ParallelGroups& groups) {
      const Parameter words = named(trainer, "embedding.word");
      if (words.shard.replicated() || words.shard.range.contains(kToken)) {
        const int64_t row = kToken - (words.shard.replicated() ? 0 : words.shard.range.begin);
        fill(words.value().slice(row, row + 1), 3e38);
      }
      // What a reader of the data expects.
      const StepParts parts = trainer.parts();
      LoadedStep loaded(parts, trainer.first_place(1));
      loaded.load();
      std::set<std::string> expected;
      int64_t first_micro_batch = -1;
      for (int64_t i = 0; i < loaded.size(); ++i) {
        const TokenBatch batch = loaded.on_host(i);
        const auto tokens = batch.tokens.span<int32_t>();
        const auto begins = batch.documents.span<int32_t>();
        const std::vector<DocumentName> names = loaded.documents(i);
        for (size_t d = 0; d < names.size() && (first_micro_batch == -1 || first_micro_batch == i);
             ++d) {
          if (std::find(tokens.begin() + begins[d], tokens.begin() + begins[d + 1], kToken) ==
              tokens.begin() + begins[d + 1]) {
            continue;
          }
          first_micro_batch = i;
          expected.insert(names[d].text());
        }
      }
      const StepDiagnosis found = diagnose_step(parts, 0, trainer.first_place(1));
      EXPECT_FALSE(found.weight.has_value());
      std::set<std::string> here;
      for (const StepDiagnosis::Found& one : found.found) {
        EXPECT_EQ(groups.grid.index_of(one.rank, Axis::data), one.data_rank);
        EXPECT_EQ(one.place.substr(0, 8), "blocks.0") << one.place;
        EXPECT_NE(one.tensor.find("the output of layer_norm"), std::string::npos) << one.tensor;
        if (one.data_rank != groups.dp->rank()) continue;
        EXPECT_EQ(one.micro_batch, first_micro_batch);
        EXPECT_EQ(one.samples, loaded.samples(one.micro_batch));
        here = {one.documents.begin(), one.documents.end()};
      }
      EXPECT_EQ(here, expected);  // both are empty if no sample of the data rank has the token
      EXPECT_FALSE(found.found.empty());
      // All ranks say the same.
      const auto texts = all_gather_strings(groups.world, found.text() + found.json().dump());
      for (const std::string& text : texts) EXPECT_EQ(text, texts.front());
      trainer.step();
      test::expect_error([&] { trainer.result(); },
                         {"of step 1 is NaN", "The first tensor that is not finite is the output",
                          "in blocks.0", "Not finite by itself: ", "sample ", "document"});
      ASSERT_NE(trainer.failed_step(), nullptr);
      EXPECT_EQ(trainer.failed_step()->step, 1);
      EXPECT_EQ(std::ssize(trainer.failed_step()->samples), run.batch.global);
    });
  }
}

// On all ranks, or on one alone.
TEST_F(BadSteps, NameAWeightThatIsNotFinite) {
  for (const char* name : {"blocks.1.mlp_norm.weight", "blocks.1.mlp.up.weight"}) {
    train(config(), {2, 2}, [&](Trainer& trainer, const ParallelGroups& groups) {
      trainer.step();
      trainer.result();
      const Parameter weight = named(trainer, name);
      if (weight.shard.replicated() || groups.world.rank() == 1) fill(weight.value(), kNaN);
      trainer.step();
      const std::string weight_text = std::string(name) + " was not finite before the step";
      test::expect_error([&] { trainer.result(); },
                         {"the loss of step 2 is NaN", weight_text.c_str(), "in blocks.1"});
    });
  }
}

// The loss hides the overflow in the gradient.
TEST_F(BadSteps, NameAGradientThatIsNotFinite) {
  train(config(), {1, 2}, [](Trainer& trainer, const ParallelGroups&) {
    const auto set = [&](const char* name, double value) {
      fill(named(trainer, name).value(), value);
    };
    set("blocks.0.attention_norm.weight", 1e37);
    set("blocks.0.attention.qkv.weight", 0.0);
    set("blocks.0.attention.qkv.bias", 0.0);
    set("blocks.0.attention.output.weight", 1e20);
    trainer.step();
    test::expect_error([&] { trainer.result(); },
                       {"the gradient norm of step 1 is", "blocks.0", "backward"});
  });
}

TEST_F(BadSteps, PointToHardwareIfTheStepIsFiniteWhenComputedAgain) {
  RunConfig run = config();
  run.train.max_skipped_steps = 1;
  train(run, {1, 2}, [](Trainer& trainer, const ParallelGroups&) {
    {
      const Replaced weight(named(trainer, "blocks.1.mlp_norm.weight").value(), kNaN);
      trainer.step();
    }
    const StepResult result = trainer.result();
    EXPECT_NE(result.note.find("Step 1 was skipped, because its loss was NaN: 1 of at most 1"),
              std::string::npos)
        << result.note;
    EXPECT_NE(result.note.find("Computed again, the step is finite: a memory, a GPU"),
              std::string::npos)
        << result.note;
    ASSERT_TRUE(result.bad_step.has_value());
    EXPECT_EQ(result.bad_step->reason, "loss");
    trainer.step();
    EXPECT_FALSE(trainer.result().bad_step.has_value());
  });
}

TEST_F(BadSteps, PointToReplayIfWeightsHaveChanged) {
  RunConfig run = config();
  run.train.max_skipped_steps = 1;
  train(run, {1, 1}, [](Trainer& trainer, const ParallelGroups&) {
    {
      const Replaced weight(named(trainer, "blocks.1.mlp_norm.weight").value(), kNaN);
      trainer.step();
    }
    trainer.step();
    const StepResult result = trainer.result();
    ASSERT_TRUE(result.bad_step.has_value());
    EXPECT_EQ(result.bad_step->step, 1);
    EXPECT_TRUE(result.bad_step->diagnosis.is_null());
    EXPECT_NE(result.note.find("run --step 1` shows the losses of its documents"),
              std::string::npos)
        << result.note;
  });
}

TEST_F(BadSteps, SkipASpikeOnDevices) {
  RunConfig run = config();
  run.train.max_skipped_steps = 1;
  run.train.spike_factor = 5.0;
  run.train.spike_window = 4;
  for (const Layout layout : {Layout{1, 1}, Layout{2, 2}}) {
    train(run, layout, [](Trainer& trainer, const ParallelGroups&) {
      const auto spike = [&] {
        const Replaced weight(named(trainer, "final_norm.weight").value(), 100.0);
        trainer.step();
      };
      for (int i = 0; i < 4; ++i) {
        trainer.step();
        EXPECT_EQ(trainer.result().note, "");
      }
      const OwnedTensor before = test::copy_of(masters_of(trainer));
      spike();
      test::expect_same_bits(masters_of(trainer), before.tensor, "masters");
      const StepResult skipped = trainer.result();
      EXPECT_EQ(skipped.skipped_steps, 1);
      EXPECT_NE(skipped.note.find("Step 5 was skipped, because its gradient norm was a spike, "),
                std::string::npos)
          << skipped.note;
      EXPECT_NE(skipped.note.find(", the median of 4 steps: 1 of at most 1"), std::string::npos);
      ASSERT_TRUE(skipped.bad_step.has_value());
      EXPECT_EQ(skipped.bad_step->reason, "spike");
      EXPECT_GT(skipped.bad_step->grad_norm, 5.0 * skipped.bad_step->median);
      EXPECT_GT(skipped.bad_step->median, 0.0);
      trainer.step();
      EXPECT_EQ(trainer.result().note, "");
      spike();
      test::expect_error([&] { trainer.result(); },
                         {"the gradient norm of step 7 is a spike, ",
                          "and train.max_skipped_steps allows no more than 1",
                          "Training stopped before it changed a weight", "tessera replay"});
    });
  }
}

// With a factor of 1, every other step or so is a spike.
TEST_F(BadSteps, SkipTheSameSpikesOnAnyLayoutAndAfterAResume) {
  constexpr int64_t kBefore = 9, kAfter = 9;
  RunConfig run = config(SmallKind::gpt_packed);
  run.train.max_skipped_steps = 100;
  run.train.spike_factor = 1.02;
  run.train.spike_window = 5;
  const auto skipped = [](const test::WholeRun& result) {
    std::vector<int64_t> steps;
    for (const StepResult& step : result.steps) {
      if (step.bad_step) steps.push_back(step.bad_step->step);
    }
    return steps;
  };
  const auto whole = skipped(test::train_whole(run, {{1, 1}, kBefore + kAfter}));
  EXPECT_GE(whole.size(), 2u);
  EXPECT_LE(whole.size(), 12u);
  for (const Layout layout : {Layout{2, 1}, Layout{2, 2}}) {
    run.run.dir = folder_ / to_string(layout);
    const test::WholeRun uninterrupted = test::train_whole(run, {layout, kBefore + kAfter});
    EXPECT_EQ(skipped(uninterrupted), whole);
    test::train_whole(run, {layout, kBefore, /*resume=*/false, /*save=*/true});
    const test::WholeRun resumed = test::train_whole(run, {layout, kAfter, /*resume=*/true});
    test::expect_same_bits(resumed.weights, uninterrupted.weights, "weights");
    EXPECT_EQ(resumed.steps.back().skipped_steps, uninterrupted.steps.back().skipped_steps);
  }
}

TEST_F(BadSteps, RollBackToACheckpointWithoutTheSamplesSinceThen) {
  for (const Layout layout : {Layout{1, 1}, Layout{2, 2}}) {
    SCOPED_TRACE(to_string(layout));
    RunConfig run = config(SmallKind::gpt_packed);
    run.run.dir = folder_ / to_string(layout);
    run.parallel.tensor = layout.tensor;
    const int64_t global = run.batch.global;
    test::run_device_ranks(layout.ranks(), [&](Communicator& world) {
      const ParallelGroups groups = make_parallel_groups(world, run.grid_shape());
      Trainer trainer(run, groups, open_training_data(run), test::test_device());
      trainer.initialize();
      const auto step = [](Trainer& of) {
        of.step();
        return of.result();
      };
      for (int i = 0; i < 3; ++i) step(trainer);
      const SavedCheckpoint saved = trainer.save();
      const OwnedTensor masters = test::copy_of(masters_of(trainer));
      step(trainer);
      {
        const Replaced weight(named(trainer, "blocks.1.mlp_norm.weight").value(), kNaN);
        trainer.step();
      }
      EXPECT_THROW(trainer.result(), SharedError);
      EXPECT_EQ(trainer.failed_step()->step, 5);
      Checkpoint checkpoint = Checkpoint::open(saved.path);
      trainer.roll_back(checkpoint);
      EXPECT_EQ(trainer.failed_step(), nullptr);
      EXPECT_EQ(trainer.run().rollbacks, 1);
      EXPECT_EQ(trainer.steps_done(), 3);
      EXPECT_EQ(trainer.samples_done(), 5 * global);
      EXPECT_EQ(trainer.first_place(4), 5 * global);
      test::expect_same_bits(masters_of(trainer), masters.tensor, "masters");
      trainer.save();
      Checkpoint again = Checkpoint::open(saved.path);
      EXPECT_EQ(again.manifest().samples, 5 * global);
      Trainer resumed(run, groups, open_training_data(run), test::test_device());
      resumed.restore(again);
      EXPECT_EQ(resumed.run().rollbacks, 1);
      for (int i = 0; i < 3; ++i) EXPECT_EQ(step(resumed).loss(), step(trainer).loss());
      test::expect_same_bits(masters_of(resumed), masters_of(trainer), "masters");
      test::expect_error([&] { trainer.roll_back(again); }, {"no step has failed"});
    });
  }
}

TEST(LayerOf, IsABlockOrAPartOfTheModel) {
  for (const auto& [parameter, layer] : std::vector<std::pair<std::string, std::string>>{
           {"blocks.3.attention.qkv.weight", "blocks.3"},
           {"decoder.blocks.0.mlp.up.weight", "decoder.blocks.0"},
           {"embedding.word", "embedding"},
           {"encoder.final_norm.weight", "encoder.final_norm"},
           {"final_norm.weight", "final_norm"},
           {"head.bias", "head"},
           {"x", "x"}}) {
    EXPECT_EQ(layer_of(parameter), layer);
  }
}

}  // namespace
}  // namespace tessera
