#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "launch/support/text/json.h"
#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

Arguments joined(Arguments a, const Arguments& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Runs without a tokenizer on a dataset of ids from 10 to 39, as another program writes it: only
/// .bin and .idx.
class CliIds : public SmallRun {
 protected:
  CliIds() {
    std::string lines;
    for (int i = 0; i < 60; ++i) {
      for (int j = 0; j < 30; ++j) lines += fmt::format("{} ", 10 + (i + j * (1 + i % 3)) % 30);
      lines += "5\n";
    }
    write_text(path("ids.txt"), lines);
    expect_success(run(tessera(kAlone, {"prepare", "--tokenizer", "none", "--vocab-size", "40",
                                        "--input", at("ids.txt"), "--output", at("prepared")})));
    for (const char* end : {".bin", ".idx"}) {
      fs::copy_file(at("prepared") + end, at("ids") + end);
    }
  }

  std::string at(const std::string& name) const { return path(name).string(); }

  Arguments ids(const Arguments& more = {}) const {
    return joined({"data.train=" + at("ids"), "data.tokenizer=none", "model.vocab_size=40"}, more);
  }
  Arguments bert(const Arguments& more = {}) const {
    return joined(ids({"model.kind=bert", "model.token_types=2",
                       "data.special_tokens={cls: 2, sep: 3, mask: 4}"}),
                  more);
  }

  Outcome ask(const std::string& command, const Arguments& more, int ranks = kAlone,
              const std::string& name = "run") const {
    return run(tessera(ranks, joined({command, at(name)}, more)));
  }
};

TEST_F(CliIds, TrainsResumesAndEvaluates) {
  const Arguments held_out = {"data.eval_fraction=0.2", "eval.interval=10"};
  expect_success(run_train(kAlone, "whole", ids(held_out)));
  const Arguments sharded = joined(ids(held_out), {"parallel.tensor=2"});
  expect_success(run_train(2, "run", joined(sharded, {"--stop-at=10"})));
  const Outcome resumed = run_train(2, "run", sharded);
  expect_success(resumed);
  EXPECT_EQ(resumed.count("has a tokenizer"), 0u) << resumed.output;
  EXPECT_EQ(resumed.count("cannot check"), 0u) << resumed.output;
  expect_near(losses("run"), losses("whole"));
  EXPECT_LT(losses("run").at(20), losses("run").at(1));
  expect_success(ask("verify", {}));

  const Outcome evaluated = ask("eval", {"--json"}, 2);
  expect_success(evaluated);
  const Json report = parse_json(evaluated.output, "eval");
  EXPECT_GT(report.at("loss").get<double>(), 0.0);
  EXPECT_EQ(report.value("bits_per_byte", Json()), Json());
  expect_success(ask("eval", {"--data", at("prepared")}));

  EXPECT_THAT(ask("inspect", {}).output, HasSubstr("tokenizer  none\n"));
  EXPECT_THAT(ask("inspect", {}, kAlone, "run/checkpoints/step_00000020").output,
              HasSubstr("tokenizer  none (ids 0 to 39)\n"));
}

TEST_F(CliIds, PreparedDatasetNeedsNoKeys) {
  write_text(path("least.yaml"), fmt::format("data: {{train: {}}}\ntrain: {{steps: 2}}\n"
                                             "run: {{dir: {}}}\n",
                                             at("prepared"), at("least")));
  const Outcome outcome = run(tessera(2, {"train", at("least.yaml")}));
  expect_success(outcome);
  EXPECT_THAT(outcome.output, HasSubstr("model.vocab_size is 40 (the dataset's)"));
  EXPECT_THAT(outcome.output, HasSubstr("data.tokenizer is none (ids 0 to 39), from "));
  const Outcome described = run(tessera(kAlone, {"inspect", at("prepared"), "--documents", "1"}));
  EXPECT_THAT(described.output, HasSubstr("tokenizer  none (ids 0 to 39)\ndocument 0, 31 tokens: "
                                          "10 11 12 "));
  expect_refused(run_train(2, "run", {"data.train=" + at("prepared"), "data.tokenizer=byte"}),
                 {"prepared.meta.json says that its tokens were made by none (ids 0 to 39), but "
                  "data.tokenizer, byte, is byte"});
}

TEST_F(CliIds, GeneratesIds) {
  expect_success(run_train(kAlone, "run", ids({"data.special_tokens={eos: 5}"})));
  const Arguments greedy = {"--temperature", "0", "--max-tokens", "40", "--ids", "10 11\n12"};
  const Outcome alone = ask("generate", greedy);
  expect_success(alone);
  EXPECT_THAT(alone.output, StartsWith("10 11 12 "));
  EXPECT_EQ(alone.output.back(), '\n');
  EXPECT_EQ(ask("generate", greedy, 2).output, alone.output);
  EXPECT_EQ(ask("generate", {"--ids", "7 8", "--max-tokens", "0"}).output, "7 8\n");
  write_text(path("prompt.txt"), "10 11 12\n");
  for (const int ranks : {kAlone, 2}) {
    Arguments program = tessera(
        ranks, {"generate", at("run"), "--temperature", "0", "--max-tokens", "40", "--ids", "-"});
    const std::string script = fmt::format("exec \"$@\" <{}", at("prompt.txt"));
    EXPECT_EQ(run(joined({"sh", "-c", script, "sh"}, program)).output, alone.output);
  }
  // A document starts after the one before, and generation stops at its end.
  const Outcome empty = ask("generate", {"--ids", "", "--max-tokens", "2"});
  expect_success(empty);
  EXPECT_THAT(empty.output, StartsWith("5 "));
  const Outcome many = ask("generate", {"--ids", "10", "--max-tokens", "500"});
  EXPECT_EQ(many.count(" 5 "), 0u) << many.output;
}

TEST_F(CliIds, EncoderDecoderReadsAndWritesIds) {
  expect_success(run_train(2, "run",
                           {"data.train=" + at("prepared"), "data.special_tokens={pad: 0, eos: 5}",
                            "model.kind=t5", "model.source_length=32", "model.vocab_size=auto",
                            "span_corruption.sentinels=8", "parallel.tensor=2"}));
  const Outcome inspected = ask("inspect", {}, kAlone, "run/checkpoints/step_00000020");
  EXPECT_THAT(inspected.output, HasSubstr("none (ids 0 to 39), special tokens {eos: 5, pad: 0}\n"));
  expect_success(ask("eval", {"--data", at("prepared")}));
  const Arguments source = {"--ids", "10 47 12", "--max-tokens", "5"};  // 47 is a sentinel
  const Outcome alone = ask("generate", source);
  expect_success(alone);
  EXPECT_THAT(alone.output, testing::MatchesRegex("([0-9]+( [0-9]+)*)?\n"));
  EXPECT_EQ(ask("generate", joined(source, {"--stream"}), 2).output, alone.output);
  expect_success(ask("generate", joined(source, {"--beams", "2"})));

  write_text(path("sources.txt"), "10 47 12\n11\n");
  expect_success(ask("generate", {"--input", at("sources.txt"), "--output", at("targets.tsv")}));
  EXPECT_THAT(read_text(path("targets.tsv")), StartsWith("target\n"));
  expect_success(ask("attention", {"--source", "10 12", "--output", at("look")}));

  expect_refused(ask("generate", {"--ids", "10 48"}),
                 {"--ids: word 2 is \"48\", but must be an id from 0 to 47"});
  expect_refused(ask("generate", {"--prompt", "10 12"}), {"--prompt is a text", "pass ids"});
  std::string many;
  for (int i = 0; i < 40; ++i) many += "10 ";
  expect_refused(ask("generate", {"--ids", many}), {"--ids: the source has 40 tokens"});
  expect_success(ask("generate", {"--ids", many, "--truncate"}));
}

TEST_F(CliIds, CommandsForTextsAskForIds) {
  expect_success(run_train(kAlone, "run", ids({"train.steps=3"})));
  expect_success(run_train(kAlone, "bert", bert({"train.steps=3"})));
  const std::string advice = "has no tokenizer (data.tokenizer: none): pass ids with --ids";
  for (const int ranks : {kAlone, 2}) {
    expect_refused(ask("generate", {"--prompt", "1 2"}, ranks), {"--prompt is a text", advice});
    expect_refused(ask("attention", {"--text", "1 2"}, ranks), {"--text is a text", advice});
    expect_refused(ask("fill-mask", {"--text", "1 2"}, ranks, "bert"),
                   {"--text is a text", advice});
  }
  expect_refused(ask("generate", {}), {"--prompt, --ids or --input is required"});
  expect_refused(ask("generate", {"--prompt", "a", "--ids", "1"}), {" excludes "});
  expect_refused(ask("generate", {"--ids", "1 40"}),
                 {"--ids: word 2 is \"40\", but must be an id from 0 to 39"});
  expect_refused(ask("generate", {"--ids", ""}), {"--ids is empty", "no end-of-document token"});
  expect_refused(ask("attention", {}, kAlone, "bert"),
                 {"--text, --ids, --source or --image is required"});
  for (const char* command : {"fill-mask", "classify"}) {
    expect_refused(ask(command, {}, kAlone, "bert"), {"--text, --ids or --input is required"});
    expect_refused(ask(command, {"--ids", "1", "--input", "x.txt"}, kAlone, "bert"),
                   {" excludes "});
  }
}

TEST_F(CliIds, AttentionShowsIds) {
  expect_success(run_train(kAlone, "run", ids({"train.steps=3"})));
  expect_success(
      ask("attention", {"--ids", "10 11", "--ids", "12", "--pack", "--output", at("look")}, 2));
  const Json report = parse_json(read_text(path("look.json")), "look.json");
  EXPECT_EQ(report.at("sequences").at(0).at("tokens"), Json({"10", "11", "12"}));
}

TEST_F(CliIds, MasksAndClassifiesIds) {
  expect_success(run_train(2, "run", bert({"parallel.tensor=2", "data.eval_fraction=0.2"})));
  expect_success(ask("eval", {}));
  const Outcome filled = ask("fill-mask", {"--ids", "10 4 12", "--top", "2"}, 2);
  expect_success(filled);
  EXPECT_EQ(filled.count("\n"), 2u) << filled.output;
  EXPECT_EQ(filled.count(" 12\n"), 2u) << filled.output;
  expect_refused(ask("fill-mask", {"--ids", "10 12"}), {"--ids is \"10 12\"", "write 4 where"});
  EXPECT_THAT(ask("inspect", {}, kAlone, "run/checkpoints/step_00000020").output,
              HasSubstr("none (ids 0 to 39), special tokens {cls: 2, mask: 4, sep: 3}\n"));

  // Ids with labels; special tokens and vocabulary come from the checkpoint.
  std::string lines = "text\tlabel\n";
  for (int i = 0; i < 40; ++i)
    lines += fmt::format("{} 12 13\t{}\n", 10 + i % 2, i % 2 ? "a" : "b");
  write_text(path("labels.tsv"), lines);
  write_text(path("labels.yaml"),
             fmt::format("data: {{train: {}}}\ntrain: {{steps: 3}}\nrun: {{dir: {}}}\n"
                         "checkpoint: {{from: {}}}\n",
                         at("labels.tsv"), at("labels"), at("run")));
  expect_success(run(tessera(2, {"train", at("labels.yaml")})));
  const Outcome classified = ask("classify", {"--ids", "10 12 13"}, 2, "labels");
  expect_success(classified);
  EXPECT_EQ(classified.count("%  "), 2u) << classified.output;
  expect_refused(ask("classify", {"--ids", "10 x"}, 2, "labels"), {"--ids: ", "word 2 is \"x\""});
  expect_refused(ask("classify", {"--text", "10"}, kAlone, "labels"), {"--text is a text"});
}

TEST_F(CliIds, ReportsMissingKeys) {
  const auto refused = [&](const Arguments& overrides, const Arguments& facts) {
    for (const int ranks : {kAlone, 2}) expect_refused(run_train(ranks, "run", overrides), facts);
  };
  const Arguments data = {"data.train=" + at("ids")};
  refused(joined(data, {"data.tokenizer=none", "model.vocab_size=auto"}),
          {"model.vocab_size is auto, but data.tokenizer is none"});
  refused(data, {"ids.tokenizer.json does not exist", "or to none to use them as ids"});
  refused(ids({"model.kind=bert"}), {"data.tokenizer is none", "data.special_tokens is {}",
                                     "needs the ids of cls, sep, mask"});
  const Outcome planned = run(tessera(
      kAlone, {"plan", at("config.yaml"), "--ranks", "2", "--set", "data.train=" + at("ids"),
               "--set", "data.tokenizer=none", "--set", "model.vocab_size=auto"}));
  expect_refused(planned, {"model.vocab_size is auto, but data.tokenizer is none"});
  expect_success(run(tessera(kAlone, {"plan", at("config.yaml"), "--ranks", "2", "--set",
                                      "data.train=" + at("ids"), "--set", "data.tokenizer=none"})));
}

// Only one of the two data ranks reads the bad id.
TEST_F(CliIds, IdOutsideVocabularyEndsAllRanks) {
  std::string tokens = read_text(at("ids") + ".bin");
  tokens[2 * 1100] = 77;
  write_text(at("ids") + ".bin", tokens);
  const Arguments often = ids({"train.steps=100", "checkpoint.interval=1"});
  for (const int ranks : {kAlone, 2}) {
    expect_refused(run_train(ranks, fmt::format("run{}", ranks), often),
                   {"ids.bin: the token at position 1100 (byte 2200) is 77, but the vocabulary has "
                    "40 tokens, 0 to 39; it is in document 35, counted from 0"});
  }
}

TEST_F(CliIds, ExportsAndImportsWithoutTokenizer) {
  expect_success(run_train(kAlone, "run", bert()));
  const Outcome out = run(tessera(kAlone, {"export", at("run"), "--to", at("out")}));
  expect_success(out);
  EXPECT_EQ(out.count("note: the model has no tokenizer (data.tokenizer: none)"), 1u) << out.output;
  EXPECT_FALSE(fs::exists(path("out") / "tokenizer.json"));
  expect_refused(run(tessera(kAlone, {"import", at("out"), "--to", at("back")})),
                 {"has no tokenizer", "with none the model's tokens are ids"});
  const Outcome in =
      run(tessera(kAlone, {"import", at("out"), "--to", at("back"), "--tokenizer", "none"}));
  expect_success(in);
  EXPECT_EQ(in.count("tokenizer: none (ids 0 to 39); pass ids to commands, with --ids\n"), 1u)
      << in.output;
  const Arguments asked = {"--ids", "10 4 12"};
  EXPECT_EQ(ask("fill-mask", asked, kAlone, "back").output, ask("fill-mask", asked).output);

  // Fine-tuning takes vocabulary and shape from the checkpoint.
  const Outcome tuned =
      run_train(2, "tuned",
                {"data.train=" + at("ids"), "data.tokenizer=none",
                 "data.special_tokens={cls: 2, sep: 3, mask: 4}", "model.kind=bert",
                 "model.token_types=2", "model.vocab_size=auto", "checkpoint.from=" + at("back")});
  expect_success(tuned);
  EXPECT_EQ(tuned.count("started with the weights of " + at("back")), 1u) << tuned.output;
  EXPECT_EQ(tuned.count("data.special_tokens is"), 0u) << tuned.output;
  for (const char* bad : {"cls", "cls=x", "cls=-1"}) {
    expect_refused(run(tessera(kAlone, {"import", at("out"), "--to", at("other"), "--tokenizer",
                                        "none", "--special-token", bad})),
                   {"--special-token is ", "must be a name and an id, as in cls=2"});
  }
}

}  // namespace
}  // namespace tessera::test
