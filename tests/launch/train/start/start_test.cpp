#include "launch/train/start/start.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "launch/config/load_config.h"
#include "launch/data/training_data.h"
#include "parallel/communicators/thread/thread_communicator.h"
#include "parallel/process_grid.h"
#include "tests/support/expect_error.h"
#include "tests/support/runs/small_runs.h"

namespace tessera {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Resume : public testing::Test {
 protected:
  Resume() { test::write_small_data(folder_); }

  RunConfig run_on(std::vector<DataBlend::Part> parts) const {
    RunConfig config = test::small_run(folder_, "run");
    for (DataBlend::Part& part : parts) part.path = folder_ / part.path;
    config.data.train = DataBlend(std::move(parts));
    return config;
  }

  /// Starts or resumes the run, runs a step and saves. Returns the reported lines.
  static std::vector<std::string> reports_of(const RunConfig& run) {
    std::vector<std::string> reports;
    run_thread_ranks(1, [&](Communicator& world) {
      const ParallelGroups groups = make_parallel_groups(world);
      Trainer trainer(run, groups, open_training_data(run));
      start_or_resume(run, trainer, world,
                      [&](const std::string& line) { reports.push_back(line); });
      trainer.step();
      trainer.save();
    });
    return reports;
  }

  test::TestFolder folder_;
};

TEST_F(Resume, ReportsNothingForSameOrder) {
  reports_of(run_on({{"half", 0.7}, {"data", 0.1}}));
  for (const double scale : {1.0, 2.0, 3.0, 1e-3, 1e7}) {
    const RunConfig run = run_on({{"half", scale * 0.7}, {"data", scale * 0.1}});
    EXPECT_THAT(reports_of(run), IsEmpty()) << scale;
  }
}

TEST_F(Resume, FirstStartKeepsTheConfigurationItReads) {
  const RunConfig run = run_on({{"data", 1.0}});
  make_run_folder(run);
  write_run_config(run);
  write_run_config(run);  // such as after a start that died
  const std::string path = run.run.dir + "/config.yaml";
  load_config(path);
  test::expect_error([&] { write_run_config(run); }, {path.c_str(), "move it out of run.dir"});
  std::filesystem::create_directory(run.run.dir + "/checkpoints");
  write_run_config(run);
}

TEST_F(Resume, IgnoresWeightOfSingleDataset) {
  reports_of(run_on({{"data", 1.0}}));
  EXPECT_THAT(reports_of(run_on({{"data", 2.0}})), IsEmpty());
}

TEST_F(Resume, ReportsDifferentWeights) {
  reports_of(run_on({{"data", 1.0}, {"half", 1.0}}));
  EXPECT_THAT(
      reports_of(run_on({{"data", 3.0}, {"half", 1.0}})),
      ElementsAre(AllOf(HasSubstr("the blend of data.train is [{\"samples\":"),
                        HasSubstr("\"share\":0.75},"), HasSubstr("\"share\":0.25}], but was"),
                        HasSubstr("\"share\":0.5}] when the checkpoint was saved: from here on "
                                  "the sample order is different"))));
}

TEST_F(Resume, ReportsReorderedDatasets) {
  reports_of(run_on({{"data", 1.0}, {"half", 1.0}}));
  EXPECT_THAT(reports_of(run_on({{"half", 1.0}, {"data", 1.0}})),
              ElementsAre(HasSubstr("the blend of data.train is ")));
}

TEST_F(Resume, ReportsChangedNumberOfSamples) {
  reports_of(run_on({{"data", 1.0}, {"half", 1.0}}));
  EXPECT_THAT(reports_of(run_on({{"data", 1.0}})),
              ElementsAre(HasSubstr("the number of training samples is ")));
}

TEST_F(Resume, ReportsTokenizerThatComesOrGoes) {
  RunConfig run = run_on({{"data", 1.0}});
  reports_of(run);
  const std::string spec = run.data.tokenizer;
  run.data.tokenizer = "none";
  EXPECT_THAT(reports_of(run),
              ElementsAre(AllOf(HasSubstr("data.tokenizer is none, but "),
                                HasSubstr("step_00000001 has a tokenizer, wordpiece with 53"),
                                HasSubstr("from here on checkpoints have none"))));
  EXPECT_THAT(reports_of(run), IsEmpty());
  run.data.special_tokens = {{"eos", 5}};
  EXPECT_THAT(reports_of(run), IsEmpty());  // it had none
  run.data.special_tokens = {{"eos", 6}};
  EXPECT_THAT(reports_of(run), ElementsAre(AllOf(HasSubstr("data.special_tokens is {eos: 6}, but "),
                                                 HasSubstr("step_00000004 has {eos: 5}"))));
  run.data.tokenizer = spec;
  run.data.special_tokens.clear();
  EXPECT_THAT(reports_of(run), ElementsAre(HasSubstr("tokens may mean other words from here on")));
}

// Sentinels are no ids of the tokenizer, but their number changes how many ids it has.
TEST_F(Resume, ReportsNothingIfOnlySentinelsChange) {
  RunConfig run = test::small_run(folder_, "run", test::SmallKind::span_corruption);
  run.data.tokenizer = "none";
  run.data.special_tokens = {{"eos", 7}};
  reports_of(run);
  run.span_corruption.sentinels -= 3;
  EXPECT_THAT(reports_of(run), IsEmpty());
}

TEST_F(Resume, RefusesStateOfOtherOptimizer) {
  RunConfig run = run_on({{"data", 1.0}});
  run.optimizer.eps = OptimizerSection().eps;
  run.optimizer.name = OptimizerName::lion;
  reports_of(run);
  const std::string lion = run.run.dir;
  run.optimizer.name = OptimizerName::muon;
  test::expect_error([&] { reports_of(run); },
                     {"optimizer.name is muon", "step_00000001 has the state of lion",
                      "choose lion to continue", "checkpoint.from"});
  run.run.dir = folder_ / "other";
  run.checkpoint.from = lion;
  EXPECT_THAT(reports_of(run), IsEmpty());  // weights alone
  EXPECT_THAT(reports_of(run), IsEmpty());
}

TEST_F(Resume, ReportsConvertedMoments) {
  RunConfig run = run_on({{"data", 1.0}});
  reports_of(run);
  run.optimizer.moment_dtype = DType::bf16;
  EXPECT_THAT(reports_of(run), ElementsAre(AllOf(HasSubstr("optimizer.moment_dtype is bf16, but "),
                                                 HasSubstr("step_00000001 has moments in fp32"),
                                                 HasSubstr("they are rounded to nearest"))));
  EXPECT_THAT(reports_of(run), IsEmpty());
  run.optimizer.moment_dtype = DType::f32;
  EXPECT_THAT(reports_of(run), ElementsAre(AllOf(HasSubstr("step_00000003 has moments in bf16"),
                                                 HasSubstr("they are converted"))));
  run.optimizer.moment_dtype = DType::u8;
  EXPECT_THAT(reports_of(run), ElementsAre(HasSubstr("optimizer.moment_dtype is int8, but ")));
  EXPECT_THAT(reports_of(run), IsEmpty());
}

}  // namespace
}  // namespace tessera
