#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numbers>

#include "launch/data/eval_datasets.h"
#include "launch/data/training_data.h"
#include "launch/train/trainer.h"
#include "parallel/communicators/thread/thread_communicator.h"
#include "parallel/process_grid.h"
#include "tests/support/runs/small_runs.h"
#include "tests/support/runs/training_world.h"

namespace tessera {
namespace {

using test::Layout;
using test::SmallKind;

/// Those of the first samples of a blend that are of one of its datasets.
class PartOfBlend final : public Dataset {
 public:
  PartOfBlend(std::shared_ptr<const Dataset> blend, int64_t first, int32_t dataset)
      : blend_(std::move(blend)) {
    for (int64_t i = 0; i < std::min(first, blend_->num_samples()); ++i) {
      Sample sample;
      blend_->fill(i, 0, sample);
      if (sample.dataset == dataset) numbers_.push_back(i);
    }
  }

  int64_t num_samples() const override { return std::ssize(numbers_); }
  int64_t seq_length() const override { return blend_->seq_length(); }
  void fill(int64_t sample, int64_t epoch, Sample& out) const override {
    blend_->fill(numbers_[static_cast<size_t>(sample)], epoch, out);
    out.dataset = 0;
  }

 private:
  std::shared_ptr<const Dataset> blend_;
  std::vector<int64_t> numbers_;
};

class DatasetLossesOfRun : public testing::TestWithParam<SmallKind> {};

TEST_P(DatasetLossesOfRun, AreThoseOfEachDatasetAloneOnEveryLayout) {
  const test::TestFolder folder;
  test::write_small_data(folder);
  RunConfig run = test::small_run(folder, "run", GetParam());
  if (run.data.train.parts.size() == 1) {  // other samples of the same file
    run.data.eval =
        DataBlend({{run.data.train.parts[0].path, 1.0}, {run.data.train.parts[0].path, 2.0}});
  } else {
    run.data.eval = run.data.train;
  }
  run.data.eval_fraction = 0.0;
  run.eval.interval = 1;
  run.eval.batches = 3;
  const int64_t first = run.eval.batches * run.batch.global;

  std::vector<Evaluation> alone(2);
  run_thread_ranks(1, [&](Communicator& world) {
    const ParallelGroups groups = make_parallel_groups(world);
    TrainingData data = open_training_data(run);
    ASSERT_EQ(data.eval_datasets.size(), 2u);
    const auto blend = data.eval;
    data.eval_datasets = {};
    for (int32_t i = 0; i < 2; ++i) {
      data.eval = std::make_shared<const PartOfBlend>(blend, first, i);
      Trainer trainer(run, groups, data);
      trainer.initialize();
      alone[static_cast<size_t>(i)] = trainer.evaluate();
      EXPECT_TRUE(alone[static_cast<size_t>(i)].datasets.empty());
    }
  });

  for (const Layout layout : {Layout{1, 1}, {2, 1}, {1, 4}, {2, 2}}) {
    SCOPED_TRACE(to_string(layout));
    RunConfig sharded = run;
    sharded.parallel.tensor = layout.tensor;
    sharded.parallel.sequence = layout.tensor > 1;
    Evaluation found;
    run_thread_ranks(layout.ranks(), [&](Communicator& world) {
      const ParallelGroups groups = make_parallel_groups(world, sharded.grid_shape());
      Trainer trainer(sharded, groups, open_training_data(sharded));
      trainer.initialize();
      const Evaluation own = trainer.evaluate();
      if (world.rank() == 0) found = own;
    });
    ASSERT_EQ(found.datasets.size(), 2u);
    double sum = 0.0;
    for (size_t i = 0; i < 2; ++i) {
      const DatasetLosses& of = found.datasets[i];
      EXPECT_EQ(of.token_targets, alone[i].counts.token_targets);
      EXPECT_EQ(of.document_targets, alone[i].counts.document_targets);
      // fp32 losses, summed in another order, from products that are.
      EXPECT_NEAR(of.losses.token, alone[i].losses.token, 2e-5);
      EXPECT_NEAR(of.losses.document, alone[i].losses.document, 2e-5);
      sum += of.losses.token * static_cast<double>(of.token_targets) +
             of.losses.document * static_cast<double>(of.document_targets);
    }
    EXPECT_NEAR(sum,
                found.losses.token * static_cast<double>(found.counts.token_targets) +
                    found.losses.document * static_cast<double>(found.counts.document_targets),
                1e-4 * std::abs(sum));
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, DatasetLossesOfRun,
                         testing::Values(SmallKind::gpt_blend, SmallKind::bert_blend,
                                         SmallKind::bert_pairs, SmallKind::classifier,
                                         SmallKind::multi_label, SmallKind::words,
                                         SmallKind::translation),
                         [](const auto& kind) { return test::to_string(kind.param); });

TEST(DatasetNames, TellDatasetsApart) {
  using Names = std::vector<std::string>;
  const auto names = [](const std::vector<std::string>& paths) {
    DataBlend blend;
    for (const std::string& path : paths) blend.parts.push_back({path, 1.0});
    return dataset_names(blend);
  };
  EXPECT_EQ(names({"data/wiki"}), Names({"wiki"}));
  EXPECT_EQ(names({"data/wiki", "/x/code.tsv"}), Names({"wiki", "code"}));
  EXPECT_EQ(names({"wiki/train", "code/train"}), Names({"wiki/train", "code/train"}));
  EXPECT_EQ(names({"train", "code/train"}), Names({"train", "code/train"}));
  EXPECT_EQ(names({"a/b", "a/b", "c"}), Names({"b", "b 2", "c"}));
}

}  // namespace
}  // namespace tessera
