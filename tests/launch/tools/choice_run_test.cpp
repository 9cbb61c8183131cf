#include "launch/tools/evaluate/choice_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <fstream>

#include "core/random.h"
#include "launch/tools/predict/text_model.h"
#include "launch/train/trainer.h"
#include "parallel/communicators/thread/thread_communicator.h"
#include "tests/launch/data/test_files.h"
#include "tests/support/runs/small_runs.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<int32_t>;

struct Question {
  Ids context;
  std::vector<Ids> choices;
  int64_t answer;
};

std::vector<Question> some_questions(int64_t shortest_context) {
  uint64_t next = 0;
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(random_bits({5, RandomPurpose::sampling, 0, 0}, next++) %
                                static_cast<uint64_t>(n));
  };
  const auto ids = [&](int64_t count) {
    Ids all;
    for (int64_t i = 0; i < count; ++i) {
      all.push_back(static_cast<int32_t>(below(test::kSmallVocabulary)));
    }
    return all;
  };
  std::vector<Question> questions;
  for (int i = 0; i < 23; ++i) {
    Question question{ids(shortest_context + below(10)), {}, 0};
    for (int64_t left = 2 + below(3); left > 0; --left)
      question.choices.push_back(ids(1 + below(9)));
    question.answer = below(std::ssize(question.choices));
    questions.push_back(question);
  }
  return questions;
}

std::string file_of(const std::vector<Question>& questions) {
  std::string text;
  for (const Question& question : questions) {
    Json line = {{"question", fmt::format("{}", fmt::join(question.context, " "))},
                 {"choices", Json::array()},
                 {"answer", question.answer}};
    for (const Ids& choice : question.choices) {
      line["choices"].push_back(fmt::format("{}", fmt::join(choice, " ")));
    }
    text += line.dump() + "\n";
  }
  return text;
}

double log_probability(std::span<const float> logits, int32_t token) {
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(double{logit});
  return double{logits[static_cast<size_t>(token)]} - std::log(sum);
}

/// Each choice alone, from the logits of all of its positions.
std::vector<double> reference(const fs::path& path, const std::vector<Question>& questions) {
  const auto self = make_self_communicator();
  Checkpoint checkpoint = Checkpoint::open(path);
  TextModel model(checkpoint, *self, kCpu);
  std::vector<double> sums;
  for (const Question& question : questions) {
    for (const Ids& choice : question.choices) {
      Ids all = question.context;
      all.insert(all.end(), choice.begin(), choice.end());
      const int64_t most = model.config().seq_length + 1;
      if (std::ssize(all) > most) all.erase(all.begin(), all.end() - most);
      Sample sample;
      sample.tokens.assign(all.begin(), all.end() - 1);
      sample.targets.assign(sample.tokens.size(), 0);
      sample.document_lengths = {static_cast<int32_t>(sample.tokens.size())};
      const Tensor logits =
          model.run(sample, [](Model& asked, const StepContext& ctx, const TokenBatch& batch) {
            return asked.logits(ctx, batch.tokens.view({1, batch.num_tokens()}));
          });
      double sum = 0.0;
      for (size_t i = all.size() - choice.size(); i < all.size(); ++i) {
        const auto at = static_cast<int64_t>(i);
        sum += log_probability(logits.slice(at - 1, at).span<float>(), all[i]);
      }
      sums.push_back(sum);
    }
  }
  return sums;
}

struct Found {
  EvalReport report;
  std::vector<double> log_likelihoods;
};

Found answer(const EvalOptions& options, const fs::path& path, int ranks, int tensor) {
  Found found;
  run_thread_ranks(ranks, [&](Communicator& world) {
    const ParallelGroups groups = make_parallel_groups(world, tensor);
    const EvalReport report = answer_questions(options, groups, path, kCpu);
    if (world.rank() == 0) found.report = report;
  });
  std::ifstream lines(*options.log_samples);
  for (std::string line; std::getline(lines, line);) {
    const Json sample = Json::parse(line);
    for (const Json& value : sample["log_likelihoods"]) {
      found.log_likelihoods.push_back(value.get<double>());
    }
  }
  return found;
}

class ChoiceRuns : public testing::TestWithParam<test::SmallKind> {};

TEST_P(ChoiceRuns, SumLogProbabilitiesOfChoicesOnEveryLayout) {
  const test::TestFolder folder;
  test::write_small_data(folder);
  RunConfig run = test::small_run(folder, "run", GetParam());
  run.data.tokenizer = "none";
  run.data.special_tokens = {{"eos", 0}};
  const auto questions = some_questions(std::max<int64_t>(1, run.model.attention_prefix));
  write_file(folder / "q.jsonl", file_of(questions));
  run.eval.multiple_choice = {folder / "q.jsonl"};
  fs::path path;
  ChoiceScores trained;
  run_thread_ranks(2, [&](Communicator& world) {
    const ParallelGroups groups = make_parallel_groups(world, 1);
    Trainer trainer(run, groups, open_training_data(run));
    trainer.initialize();
    for (int i = 0; i < 5; ++i) trainer.step();
    const Evaluation found = trainer.evaluate();
    const fs::path saved = trainer.save().path;
    if (world.rank() != 0) return;
    path = saved;
    trained = found.choices.at(0);
  });

  const std::vector<double> expected = reference(path, questions);
  EvalOptions options;
  options.multiple_choice = run.eval.multiple_choice;
  options.log_samples = folder / "samples.jsonl";
  for (const auto& [ranks, tensor, micro] :
       {std::array{1, 1, 8}, {1, 1, 1}, {2, 2, 3}, {2, 1, 2}, {4, 2, 1}}) {
    SCOPED_TRACE(fmt::format("{} ranks, {} tensor ranks, micro-batch {}", ranks, tensor, micro));
    options.micro_batch = micro;
    const Found found = answer(options, path, ranks, tensor);
    ASSERT_EQ(found.log_likelihoods.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      // fp32 losses of a few tokens, from logits that are summed in another order.
      EXPECT_NEAR(found.log_likelihoods[i], expected[i], 2e-6 * std::abs(expected[i]) + 1e-5) << i;
    }
    ASSERT_EQ(found.report.found.choices.size(), 1u);
    const ChoiceScores& scores = found.report.found.choices[0];
    EXPECT_EQ(scores.questions, std::ssize(questions));
    EXPECT_EQ(scores.acc.value, trained.acc.value);
    EXPECT_EQ(scores.acc_norm.value, trained.acc_norm.value);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, ChoiceRuns,
                         testing::Values(test::SmallKind::gpt, test::SmallKind::gpt_packed,
                                         test::SmallKind::prefix_lm, test::SmallKind::planes,
                                         test::SmallKind::qwen3),
                         [](const auto& kind) { return test::to_string(kind.param); });

}  // namespace
}  // namespace tessera
