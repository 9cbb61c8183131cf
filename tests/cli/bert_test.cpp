#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

Arguments joined(Arguments a, const Arguments& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class CliBert : public SmallRun {
 protected:
  CliBert() {
    const std::string text = path("text.txt").string(), vocabulary = path("vocab.txt").string();
    expect_success(run(tessera(kAlone, {"tokenizer", "train", "--kind", "wordpiece", "--vocab-size",
                                        "100", "--input", text, "--output", vocabulary})));
    expect_success(
        run(tessera(kAlone, {"prepare", "--tokenizer", "wordpiece:" + vocabulary, "--documents",
                             "line", "--input", text, "--output", path("lines").string()})));
  }

  Arguments bert() const {
    return {"model.kind=bert",
            "model.token_types=2",
            "data.train=" + path("lines").string(),
            "data.tokenizer=wordpiece:" + path("vocab.txt").string(),
            "data.eval_fraction=0.2",
            "eval.interval=10"};
  }
  Arguments sharded(const Arguments& more = {}) const {
    return joined(joined(bert(), {"parallel.tensor=2"}), more);
  }

  std::string metrics(const std::string& run) const {
    return read_text(path(run) / "metrics.jsonl");
  }
};

TEST_F(CliBert, ShardedMatchesSingleRankAndReportsAccuracy) {
  expect_success(run_train(kAlone, "whole", bert()));
  const Outcome outcome = run_train(2, "run", sharded());
  expect_success(outcome);
  expect_near(losses("run"), losses("whole"));
  EXPECT_EQ(outcome.count("2 ranks = 1 data × 2 tensor\n"), 1u) << outcome.output;
  EXPECT_EQ(outcome.count("  eval loss "), 2u) << outcome.output;
  EXPECT_THAT(outcome.output,
              ContainsRegex("step 20  eval loss [0-9.]+  token accuracy [0-9.]+% \\(always the "
                            "most frequent: [0-9.]+%\\)\n"));
  EXPECT_THAT(outcome.output, ContainsRegex("step 20/20 .* tok/s .*padding [0-9]+%"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("nan")));
  EXPECT_THAT(metrics("run"), HasSubstr("\"eval_token_accuracy\":"));
  EXPECT_THAT(metrics("run"), HasSubstr("\"eval_most_frequent_token\":"));
}

TEST_F(CliBert, ReportsAccuracyOfBothHeads) {
  const Arguments pairs = {"model.next_sentence=true", "data.train=" + path("sentences").string(),
                           "train.steps=10"};
  std::string paragraphs;
  for (int i = 0; i < 60; ++i) {
    paragraphs +=
        fmt::format("{0} times {0} is that.\nthat is all of {0}.\nand {0} is all.\n\n", i);
  }
  write_text(path("paragraphs.txt"), paragraphs);
  expect_success(run(
      tessera(kAlone, {"prepare", "--tokenizer", "wordpiece:" + path("vocab.txt").string(),
                       "--documents", "paragraph", "--sentences", "line", "--input",
                       path("paragraphs.txt").string(), "--output", path("sentences").string()})));
  const Outcome outcome = run_train(2, "run", sharded(pairs));
  expect_success(outcome);
  EXPECT_THAT(outcome.output, ContainsRegex("token accuracy [0-9.]+% \\(always the most frequent: "
                                            "[0-9.]+%\\)  next-sentence accuracy [0-9.]+%\n"));
  EXPECT_THAT(metrics("run"), HasSubstr("\"document_loss\":"));
  EXPECT_THAT(metrics("run"), HasSubstr("\"eval_document_accuracy\":"));
}

TEST_F(CliBert, ResumesBitForBit) {
  expect_success(run_train(2, "whole", sharded()));
  expect_success(run_train(2, "run", sharded({"--stop-at=7"})));
  const Outcome resumed = run_train(2, "run", sharded());
  expect_success(resumed);
  EXPECT_EQ(resumed.count("step_00000007 (step 7, 56 samples seen)"), 1u) << resumed.output;
  EXPECT_EQ(losses("run"), losses("whole"));
}

TEST_F(CliBert, FineTunesClassifier) {
  expect_success(run_train(2, "pretrained", sharded()));
  std::string texts = "text\tlabel\n";
  for (int i = 0; i < 60; ++i) {
    texts += fmt::format("{} is {}\t{}\n", i % 2 == 0 ? "that" : "all", i % 7,
                         i % 2 == 0 ? "yes" : "no");
  }
  write_text(path("texts.tsv"), texts);
  const Arguments classify =
      sharded({"data.train=" + path("texts.tsv").string(), "model.head=classification",
               "model.num_labels=2", "data.labels=\"yes,no\"", "eval.interval=20"});
  const Arguments from =
      joined(classify, {"checkpoint.from=" + path("pretrained").string(), "optimizer.eps=1e-8",
                        "optimizer.lr=0.003", "train.steps=40"});
  const Outcome tuned = run_train(2, "run", from);
  expect_success(tuned);
  EXPECT_THAT(
      tuned.output,
      HasSubstr("started with the weights of " + path("pretrained").string() +
                "/checkpoints/step_00000020; new: pooler.weight, pooler.bias, classifier.weight, "
                "classifier.bias; left out: head.bias, head.norm.bias"));
  EXPECT_THAT(tuned.output,
              ContainsRegex("step 40  eval loss [0-9.]+  label accuracy [0-9.]+% .always the most "
                            "frequent: [0-9.]+%.  macro F1 [0-9.]+\n"));
  EXPECT_THAT(metrics("run"), HasSubstr("\"eval_f1\":["));
  EXPECT_LT(losses("run").at(40), 0.5 * losses("run").at(1)) << tuned.output;

  expect_refused(run_train(2, "other", joined(from, {"model.hidden_size=64"})),
                 {"is of another model", "model.hidden_size is 32 in the checkpoint and 64"});
}

TEST_F(CliBert, RejectsUnusableTrainingData) {
  // Without metadata, the different tokenizer goes unnoticed.
  std::filesystem::remove(path("lines.meta.json"));
  expect_refused(run_train(2, "run", sharded({"data.tokenizer=byte"})),
                 {"[MASK]", "data.tokenizer"});
  write_text(path("texts.tsv"), "text\tlabel\nthat is all\t2\n");
  expect_refused(run_train(2, "run",
                           sharded({"data.train=" + path("texts.tsv").string(),
                                    "model.head=classification", "model.num_labels=2"})),
                 {"texts.tsv:2: the label is 2, but must be an integer from 0 to 1"});
}

TEST_F(CliBert, FillsMasksOnAnyNumberOfRanks) {
  expect_success(run_train(2, "run", sharded({"parallel.sequence=true"})));
  const auto ask = [&](int ranks, const std::string& text) {
    return run(tessera(ranks, {"fill-mask", path("run").string(), "--text", text, "--top", "3"}));
  };
  const Outcome alone = ask(kAlone, "7 times [MASK] is 7");
  expect_success(alone);
  EXPECT_THAT(alone.output, ContainsRegex("^ *[0-9.]+%  .*7 times .* is 7\n"));
  EXPECT_EQ(alone.count("%  "), 3u) << alone.output;
  EXPECT_EQ(ask(2, "7 times [MASK] is 7").output, alone.output);

  const Outcome two = ask(kAlone, "7 [MASK] 1 is [MASK]");
  expect_success(two);
  EXPECT_THAT(two.output, testing::AllOf(HasSubstr("place 1 of 2"), HasSubstr("place 2 of 2")));
  EXPECT_EQ(two.count("%  "), 6u) << two.output;

  expect_refused(ask(2, "7 times 1 is 7"), {"which has no mask", "[MASK]"});
  expect_refused(ask(kAlone, "[MASK]" + std::string(40, '7') + std::string(200, ' ') +
                                 "7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7"),
                 {"tokens, including special tokens, but the model supports at most 16"});
  expect_refused(run(tessera(kAlone, {"generate", path("run").string(), "--prompt", "7"})),
                 {"is a BERT that this command cannot use", "fill-mask"});
  expect_refused(
      run(tessera(kAlone, {"classify", path("run").string(), "--text", "7"})),
      {"is a BERT that this command cannot use: it fills masks", "model.head=classification"});
}

TEST_F(CliBert, ClassifiesWithLabelNames) {
  std::string texts = "id,sentence,label\n";
  for (int i = 0; i < 40; ++i) {
    texts += fmt::format("{},\"{}\",{}\n", i, i % 2 == 0 ? "7 times 7" : "that is all",
                         i % 2 == 0 ? "sum" : "end");
  }
  write_text(path("texts.csv"), texts);
  expect_success(
      run_train(2, "run",
                {"model.kind=bert", "model.head=classification", "model.num_labels=2",
                 "parallel.tensor=2", "data.train=" + path("texts.csv").string(),
                 "data.labels=sum,end", "data.columns={text: sentence}", "data.truncate=true",
                 "data.tokenizer=wordpiece:" + path("vocab.txt").string(), "optimizer.eps=1e-8"}));
  const auto ask = [&](int ranks, const std::string& text) {
    return run(tessera(ranks, {"classify", path("run").string(), "--text", text}));
  };
  const Outcome sum = ask(kAlone, "7 times 7");
  expect_success(sum);
  EXPECT_THAT(sum.output, ContainsRegex("^ *[0-9.]+%  sum\n *[0-9.]+%  end\n$"));
  EXPECT_EQ(ask(2, "7 times 7").output, sum.output);
  EXPECT_THAT(ask(kAlone, "that is all").output, ContainsRegex("^ *[0-9.]+%  end\n"));
  std::string too_long = "7 times 7";
  for (int i = 0; i < 20; ++i) too_long += " 7";
  expect_success(ask(kAlone, too_long));  // truncated, as in the run

  write_text(path("some.txt"), "7 times 7\nthat is all\n");
  const auto ask_file = [&](const std::string& input, const std::string& output) {
    return run(tessera(2, {"classify", path("run").string(), "--input", path(input).string(),
                           "--output", path(output).string(), "--micro-batch", "1"}));
  };
  const Outcome file = ask_file("some.txt", "labels.tsv");
  expect_success(file);
  EXPECT_THAT(file.output, HasSubstr("labels.tsv: predictions for 2 texts"));
  EXPECT_THAT(read_text(path("labels.tsv")),
              ContainsRegex("^line\ttext\tlabel\tprobability\n1\t7 times 7\tsum\t[0-9.]+\n"
                            "2\tthat is all\tend\t[0-9.]+\n$"));
  write_text(path("some.txt"), "7 times 7\n\n");
  expect_refused(ask_file("some.txt", "other.tsv"), {"some.txt:2: the line is empty"});
  EXPECT_FALSE(std::filesystem::exists(path("other.tsv")));
  expect_refused(ask_file("some.txt", "labels.txt"), {"labels.txt", ".tsv, .csv or .jsonl"});
  expect_refused(run(tessera(kAlone, {"fill-mask", path("run").string(), "--text", "[MASK]"})),
                 {"it classifies texts", "tessera classify"});
}

TEST_F(CliBert, EmbedsTextsOnAnyNumberOfRanks) {
  std::string pairs = "anchor\tpositive\n", texts;
  for (int i = 0; i < 40; ++i) {
    pairs += fmt::format("{0} times {1}\t{1} times {0}\n", i % 5, i % 7);
    texts += fmt::format("{} is {}\n", i % 3, i % 7);
  }
  write_text(path("pairs.tsv"), pairs);
  write_text(path("texts.txt"), texts);
  const Outcome trained =
      run_train(2, "run",
                {"model.kind=bert", "data.train=" + path("pairs.tsv").string(),
                 "data.tokenizer=wordpiece:" + path("vocab.txt").string(), "data.eval_fraction=0.2",
                 "eval.interval=20", "optimizer.eps=1e-8"});
  expect_success(trained);
  EXPECT_THAT(trained.output, ContainsRegex("step 20  eval loss [0-9.]+  accuracy@1 [0-9.]+  "
                                            "accuracy@10 [0-9.]+  MRR@10 [0-9.]+\n"));
  EXPECT_THAT(metrics("run"), HasSubstr("\"eval_mrr_at_10\":"));
  const Outcome one = run(tessera(kAlone, {"embed", path("run").string(), "--text", "7 times 7"}));
  expect_success(one);
  EXPECT_THAT(one.output, ContainsRegex("^\\{\"embedding\": \\[-?[0-9.]+, .*\\]\\}\n$"));

  const auto ask_file = [&](int ranks, const Arguments& more) {
    return run(tessera(ranks, joined({"embed", path("run").string(), "--input",
                                      path("texts.txt").string(), "--micro-batch", "3"},
                                     more)));
  };
  expect_success(ask_file(kAlone, {"--output", path("alone.npy").string()}));
  const std::string whole = read_text(path("alone.npy"));
  EXPECT_EQ(whole.size(), 128u + 40 * 32 * sizeof(float));
  for (const int ranks : {2, 4}) {
    expect_success(ask_file(ranks, {"--overwrite", "--output", path("shared.npy").string()}));
    EXPECT_EQ(read_text(path("shared.npy")), whole);
  }
  expect_success(ask_file(4, {"--output", path("split.jsonl").string(), "--tensor", "2"}));
  expect_refused(ask_file(2, {"--output", path("x.npy").string(), "--tensor", "4"}),
                 {"--tensor is 4, but 2 ranks were started"});
  expect_refused(ask_file(2, {"--output", path("x.tsv").string()}), {"x.tsv", ".jsonl or .npy"});
  expect_refused(run(tessera(kAlone, {"classify", path("run").string(), "--text", "7"})),
                 {"it makes vectors of texts, with tessera embed"});
}

TEST_F(CliBert, RejectsDataFromDifferentTokenizer) {
  const std::string fewer = path("fewer.txt").string();
  expect_success(
      run(tessera(kAlone, {"tokenizer", "train", "--kind", "wordpiece", "--vocab-size", "60",
                           "--input", path("text.txt").string(), "--output", fewer})));
  const Outcome known =
      run_train(kAlone, "run", joined(bert(), {"data.tokenizer=wordpiece:" + fewer}));
  expect_refused(known, {path("lines.meta.json").string(), "100 tokens", "60 tokens"});
  std::filesystem::remove(path("lines.meta.json"));
  expect_refused(run_train(kAlone, "run", joined(bert(), {"data.tokenizer=wordpiece:" + fewer})),
                 {"made with another tokenizer, or", path("lines").string()});
}

}  // namespace
}  // namespace tessera::test
