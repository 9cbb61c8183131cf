#include "launch/train/sample_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "launch/data/training_data.h"
#include "launch/train/trainer.h"
#include "parallel/communicators/thread/thread_communicator.h"
#include "parallel/process_grid.h"
#include "tests/support/expect_error.h"
#include "tests/support/runs/small_runs.h"
#include "tests/support/runs/training_world.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using test::Layout;
using test::SmallKind;

class Samples : public testing::Test {
 protected:
  Samples() { test::write_small_data(folder_); }

  /// A run with little memory, whose texts are longer than the model's context.
  RunConfig config(SmallKind kind) const {
    RunConfig run = test::small_run(folder_, "run", kind);
    run.train.recompute = Recompute::block;
    run.eval.prompts = {"w9 w12 w9 w12 w15", "w30 w33 w36 w30 w33 w36", "w9 w12 w9 w12 w15"};
    run.eval.sample_interval = 1;
    run.eval.sample_tokens = 24;
    return run;
  }

  /// The texts after each of three steps. Expects them on every rank, and that the weights after
  /// another step have the bits of a run without samples.
  std::vector<std::string> texts(RunConfig run, Layout layout) const {
    run.parallel.tensor = layout.tensor;
    run.parallel.sequence = layout.tensor > 1;
    run.parallel.zero = layout.data > 1 ? 3 : 0;
    RunConfig plain = run;
    plain.eval = {};
    std::vector<std::vector<std::string>> of_ranks(static_cast<size_t>(layout.ranks()));
    run_thread_ranks(layout.ranks(), [&](Communicator& world) {
      const ParallelGroups groups = make_parallel_groups(world, run.grid_shape());
      const TrainingData data = open_training_data(run);
      Trainer without(plain, groups, data), with(run, groups, data);
      without.initialize();
      with.initialize();
      std::vector<std::string>& own = of_ranks[static_cast<size_t>(world.rank())];
      for (int step = 0; step < 3; ++step) {
        without.step();
        with.step();
        for (const ModelSample& sample : with.write_samples()) own.push_back(sample.text);
      }
      without.step();
      with.step();
      test::expect_same_bits(with.parameters().flat_values(), without.parameters().flat_values(),
                             "values");
      const auto lines = with.memory().lines;
      const auto line = std::ranges::find(lines, "samples", &MemoryPlan::Line::what);
      ASSERT_NE(line, lines.end());
      EXPECT_GT(line->bytes, 0u);
    });
    for (const auto& own : of_ranks) EXPECT_EQ(own, of_ranks[0]);
    return of_ranks[0];
  }

  test::TestFolder folder_;
};

TEST_F(Samples, AreTheSameOnAnyLayoutAndChangeNothing) {
  for (const SmallKind kind : {SmallKind::gpt, SmallKind::gpt_packed, SmallKind::prefix_lm,
                               SmallKind::planes, SmallKind::qwen3, SmallKind::translation}) {
    SCOPED_TRACE(test::to_string(kind));
    const std::vector<std::string> whole = texts(config(kind), {1, 1});
    ASSERT_EQ(whole.size(), 9u);
    EXPECT_NE(whole[0], whole[3]) << "a step has the random numbers of another";
    EXPECT_NE(whole[0], whole[2]) << "a prompt has the random numbers of another";
    EXPECT_EQ(texts(config(kind), {2, 2}), whole);
  }
}

TEST_F(Samples, AreWrittenInBf16) {
  for (const SmallKind kind : {SmallKind::gpt, SmallKind::qwen3, SmallKind::translation}) {
    SCOPED_TRACE(test::to_string(kind));
    RunConfig run = config(kind);
    run.run.precision = DType::bf16;
    EXPECT_EQ(texts(run, {2, 2}).size(), 9u);
  }
}

TEST_F(Samples, ReplyToMessages) {
  RunConfig run = config(SmallKind::gpt);
  ChatForm form{"imported"};
  form.at_start[index_of(Role::user)] = {"w9 "};
  form.after[index_of(Role::user)][index_of(Role::assistant)] = {" w12"};
  form.reply_end = "[SEP]";
  const auto samples = [&](const std::shared_ptr<const ChatForm>& chat) {
    std::vector<ModelSample> found;
    run_thread_ranks(1, [&](Communicator& world) {
      TrainingData data = open_training_data(run);
      data.chat = chat;
      const ParallelGroups groups = make_parallel_groups(world);
      Trainer trainer(run, groups, data);
      trainer.initialize();
      found = trainer.write_samples();
    });
    return found;
  };
  const std::vector<ModelSample> replies = samples(std::make_shared<const ChatForm>(form));
  for (std::string& prompt : run.eval.prompts) prompt = "w9 " + prompt + " w12";
  const std::vector<ModelSample> texts = samples(nullptr);
  ASSERT_EQ(replies.size(), 3u);
  for (size_t i = 0; i < replies.size(); ++i) {
    EXPECT_EQ("w9 " + replies[i].prompt + " w12", texts[i].prompt);
    EXPECT_THAT(texts[i].text, testing::StartsWith(replies[i].text)) << "ends with [SEP]";
  }
}

TEST_F(Samples, RefusePromptsThatTheModelCannotRead) {
  const auto error = [&](const RunConfig& run) {
    const TrainingData data = open_training_data(run);
    return test::error_of([&] { SampleWriter(run, data.tokenizer.get()); });
  };
  RunConfig run = config(SmallKind::translation);
  for (int i = 0; i < 30; ++i) run.eval.prompts[1] += " w9";
  EXPECT_THAT(error(run), testing::HasSubstr("eval.prompts, text 2"));
  run = config(SmallKind::prefix_lm);
  run.eval.prompts = {"w9"};
  EXPECT_THAT(error(run), testing::HasSubstr("eval.prompts, text 1: the prompt has 1 tokens"));
  run = config(SmallKind::prompts);
  EXPECT_THAT(error(run), testing::HasSubstr("eval.prompts has texts, but the data has no "
                                             "tokenizer (data.tokenizer)"));
  EXPECT_THAT(test::error_of([&] { SampleWriter(run, nullptr); }),
              testing::HasSubstr("no tokenizer"));
}

}  // namespace
}  // namespace tessera
