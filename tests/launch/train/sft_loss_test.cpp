#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cmath>

#include "launch/checkpoint/find.h"
#include "launch/tools/predict/text_model.h"
#include "parallel/communicators/communicator.h"
#include "tests/launch/data/test_files.h"
#include "tests/support/runs/small_runs.h"
#include "tests/support/runs/training_world.h"

namespace tessera {
namespace {

using Ids = std::vector<int32_t>;

struct Example {
  Ids prompt, completion;
};

constexpr int32_t kEnd = 0;

std::vector<Example> some_examples() {
  std::vector<Example> all;
  for (int32_t i = 1; i <= 20; ++i) {
    Example example;
    for (int32_t k = 0; k <= i % 4; ++k) example.prompt.push_back(1 + (7 * i + k) % 50);
    for (int32_t k = 0; k <= i % 3; ++k) example.completion.push_back(1 + (11 * i + k) % 50);
    all.push_back(example);
  }
  return all;
}

std::string file_of(const std::vector<Example>& examples) {
  std::string text = "prompt\tcompletion\n";
  for (const auto& [prompt, completion] : examples) {
    text += fmt::format("{}\t{}\n", fmt::join(prompt, " "), fmt::join(completion, " "));
  }
  return text;
}

/// −log p of `token`, from the logits of all tokens.
double cross_entropy(std::span<const float> logits, int32_t token) {
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(double{logit});
  return std::log(sum) - double{logits[static_cast<size_t>(token)]};
}

struct Sum {
  double loss = 0.0;
  int64_t count = 0;
};

/// Each example alone, without packing and without targets.
Sum reference(const RunConfig& run, const std::vector<Example>& examples) {
  const auto self = make_self_communicator();
  Checkpoint checkpoint = Checkpoint::open(resolve_checkpoint(run.run.dir, warn_of_skipped));
  TextModel model(checkpoint, *self, kCpu);
  Sum sum;
  for (const auto& [prompt, completion] : examples) {
    Ids all = prompt;
    all.insert(all.end(), completion.begin(), completion.end());
    all.push_back(kEnd);
    Sample sample;
    sample.tokens.assign(all.begin(), all.end() - 1);
    sample.targets.assign(sample.tokens.size(), 0);
    sample.document_lengths = {static_cast<int32_t>(sample.tokens.size())};
    const Tensor logits =
        model.run(sample, [](Model& asked, const StepContext& ctx, const TokenBatch& batch) {
          return asked.token_logits(ctx, batch);
        });
    const size_t first = run.data.loss_on_prompts ? 1 : prompt.size();
    for (size_t i = first; i < all.size(); ++i) {
      const Tensor row = logits.slice(static_cast<int64_t>(i) - 1, static_cast<int64_t>(i));
      sum.loss += cross_entropy(row.span<float>(), all[i]);
      ++sum.count;
    }
  }
  return sum;
}

TEST(SftLoss, IsTheMeanOverTheTokensOfCompletions) {
  const test::TestFolder folder;
  test::write_small_data(folder);
  const std::vector<Example> examples = some_examples();
  write_file(folder / "eval.tsv", file_of(examples));
  RunConfig run = test::small_run(folder, "run", test::SmallKind::prompts);
  run.data.eval = DataBlend(folder / "eval.tsv");
  run.data.eval_fraction = 0.0;
  run.batch.micro = 1;
  for (const bool prompts : {false, true}) {
    run.data.loss_on_prompts = prompts;
    run.run.dir = folder / fmt::format("run_{}", prompts);
    const test::WholeRun trained = test::train_whole(run, {{2, 1}, 5, false, /*save=*/true});
    const Sum expected = reference(run, examples);
    EXPECT_EQ(trained.evaluation.counts.token_targets, expected.count);
    const double mean = expected.loss / static_cast<double>(expected.count);
    // fp32 losses of a few tokens, summed in another order.
    EXPECT_NEAR(trained.evaluation.losses.token, mean, 1e-5 * mean);
  }
}

}  // namespace
}  // namespace tessera
