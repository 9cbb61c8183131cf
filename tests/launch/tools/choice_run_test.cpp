#include "launch/tools/evaluate/choice_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <memory>
#include <span>

#include "core/random.h"
#include "launch/tools/evaluate/likelihood_run.h"
#include "launch/tools/predict/text_model.h"
#include "launch/train/trainer.h"
#include "parallel/communicators/thread/thread_communicator.h"
#include "tests/launch/data/test_files.h"
#include "tests/support/runs/small_runs.h"
#include "tests/support/runs/training_world.h"

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

struct Score {
  double log_likelihood = 0.0;
  bool greedy = true;
};

/// Scores and continues texts with the logits of all of their positions, each text alone.
class Reference {
 public:
  explicit Reference(const fs::path& path)
      : self_(make_self_communicator()),
        checkpoint_(Checkpoint::open(path)),
        model_(checkpoint_, *self_, kCpu) {}

  Score score(Ids tokens, int64_t own) {
    const int64_t most = model_.config().seq_length + 1;
    if (std::ssize(tokens) > most) tokens.erase(tokens.begin(), tokens.end() - most);
    const Tensor logits = logits_of({tokens.begin(), tokens.end() - 1});
    Score score;
    for (int64_t i = std::ssize(tokens) - own; i < std::ssize(tokens); ++i) {
      const auto row = logits.slice(i - 1, i).span<float>();
      const int32_t token = tokens[static_cast<size_t>(i)];
      score.log_likelihood += log_probability(row, token);
      score.greedy = score.greedy && likeliest(row) == token;
    }
    return score;
  }

  /// The likeliest token after a text.
  int32_t next(const Ids& tokens) {
    const auto last = std::ssize(tokens);
    return likeliest(logits_of(tokens).slice(last - 1, last).span<float>());
  }

  std::vector<double> log_likelihoods(const std::vector<Question>& questions) {
    std::vector<double> sums;
    for (const Question& question : questions) {
      for (const Ids& choice : question.choices) {
        Ids all = question.context;
        all.insert(all.end(), choice.begin(), choice.end());
        sums.push_back(score(all, std::ssize(choice)).log_likelihood);
      }
    }
    return sums;
  }

  int64_t seq_length() const { return model_.config().seq_length; }

 private:
  static int32_t likeliest(std::span<const float> row) {
    return static_cast<int32_t>(std::ranges::max_element(row) - row.begin());
  }

  Tensor logits_of(const Ids& tokens) {
    Sample sample;
    sample.tokens = tokens;
    sample.targets.assign(tokens.size(), 0);
    sample.document_lengths = {static_cast<int32_t>(tokens.size())};
    return model_.run(sample, [](Model& asked, const StepContext& ctx, const TokenBatch& batch) {
      return asked.token_logits(ctx, batch);
    });
  }

  std::unique_ptr<Communicator> self_;
  Checkpoint checkpoint_;
  TextModel model_;
};

struct Found {
  EvalReport report;
  std::vector<double> log_likelihoods;
};

Found answer(const EvalOptions& options, const fs::path& path, int ranks, int tensor) {
  Found found;
  run_thread_ranks(ranks, [&](Communicator& world) {
    const ParallelGroups groups = make_parallel_groups(world, {.tensor = tensor});
    Checkpoint checkpoint = Checkpoint::open(path);
    TextModel model(checkpoint, *groups.tp, kCpu, options.micro_batch);
    const EvalReport report = answer_questions(options, groups, path, model);
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
    const ParallelGroups groups = make_parallel_groups(world);
    Trainer trainer(run, groups, open_training_data(run));
    trainer.initialize();
    for (int i = 0; i < 5; ++i) trainer.step();
    const Evaluation found = trainer.evaluate();
    const fs::path saved = trainer.save().path;
    if (world.rank() != 0) return;
    path = saved;
    trained = found.choices.at(0);
  });

  Reference reference(path);
  const std::vector<double> expected = reference.log_likelihoods(questions);
  EvalOptions options;
  options.multiple_choice = run.eval.multiple_choice;
  options.log_samples = folder / "samples.jsonl";
  options.overwrite = true;
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

std::string words(std::span<const int32_t> ids) { return fmt::format("{}", fmt::join(ids, " ")); }

TEST_P(ChoiceRuns, ScoreContinuationsAndWholeTextsOnEveryLayout) {
  const test::TestFolder folder;
  test::write_small_data(folder);
  RunConfig run = test::small_run(folder, "run", GetParam());
  run.data.tokenizer = "none";
  run.data.special_tokens = {{"eos", 0}};
  const fs::path path = test::train_checkpoint(run);

  // Pairs, some of whose continuations are the model's own, and texts of up to three windows.
  Reference reference(path);
  const int64_t prefix = run.model.attention_prefix, length = reference.seq_length();
  std::string lines;
  std::vector<Score> expected;
  size_t number = 0;
  for (const Question& question : some_questions(std::max<int64_t>(1, prefix))) {
    Ids all = question.context;
    Ids own = question.choices[0];
    if (number++ % 3 == 0) {
      own.clear();
      for (int i = 0; i < 3; ++i) {
        Ids text = all;
        text.insert(text.end(), own.begin(), own.end());
        own.push_back(reference.next(text));
      }
    }
    lines += Json{{"context", words(all)}, {"continuation", " " + words(own)}}.dump() + "\n";
    all.insert(all.end(), own.begin(), own.end());
    expected.push_back(reference.score(all, std::ssize(own)));
    if (prefix > 0) continue;
    Ids text;
    for (size_t i = 0; i < number % 3 * static_cast<size_t>(length) + number % 5; ++i) {
      text.push_back(all[i % all.size()]);
    }
    lines += Json{{"text", words(text)}}.dump() + "\n";
    Score whole;
    text.insert(text.begin(), 0);
    for (int64_t begin = 1; begin < std::ssize(text); begin += length) {
      const int64_t end = std::min(begin + length, std::ssize(text));
      const Score window = reference.score({text.begin(), text.begin() + end}, end - begin);
      whole.log_likelihood += window.log_likelihood;
      whole.greedy = whole.greedy && window.greedy;
    }
    expected.push_back(whole);
  }
  EvalOptions options;
  options.log_likelihoods = folder / "texts.jsonl";
  options.log_samples = folder / "scores.jsonl";
  options.overwrite = true;
  write_file(*options.log_likelihoods, lines);
  int64_t greedy = 0;
  for (const auto& [ranks, tensor, micro] : {std::array{1, 1, 8}, {2, 2, 3}, {4, 2, 1}}) {
    SCOPED_TRACE(fmt::format("{} ranks, {} tensor ranks, micro-batch {}", ranks, tensor, micro));
    options.micro_batch = micro;
    run_thread_ranks(ranks, [&, wide = tensor](Communicator& world) {
      const ParallelGroups groups = make_parallel_groups(world, {.tensor = wide});
      Checkpoint checkpoint = Checkpoint::open(path);
      TextModel model(checkpoint, *groups.tp, kCpu, options.micro_batch);
      score_texts(options, groups, path, model);
    });
    std::ifstream scores(*options.log_samples);
    size_t i = 0;
    for (std::string line; std::getline(scores, line); ++i) {
      ASSERT_LT(i, expected.size());
      const Json score = Json::parse(line);
      const double sum = expected[i].log_likelihood;
      EXPECT_NEAR(score["log_likelihood"].get<double>(), sum, 2e-6 * std::abs(sum) + 1e-5) << i;
      EXPECT_EQ(score["greedy"].get<bool>(), expected[i].greedy) << i;
      if (score["greedy"].get<bool>() && score["tokens"].get<int64_t>() == 3) ++greedy;
    }
    EXPECT_EQ(i, expected.size());
  }
  EXPECT_GE(greedy, 3 * 7);
}

INSTANTIATE_TEST_SUITE_P(Kinds, ChoiceRuns,
                         testing::Values(test::SmallKind::gpt, test::SmallKind::gpt_packed,
                                         test::SmallKind::prefix_lm, test::SmallKind::planes,
                                         test::SmallKind::qwen3),
                         [](const auto& kind) { return test::to_string(kind.param); });

}  // namespace
}  // namespace tessera
