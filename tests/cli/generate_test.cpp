#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sstream>

#include "launch/generation/stop_strings.h"
#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

class CliGenerate : public SmallRun {
 protected:
  Outcome run_generate(int ranks, const Arguments& more) const {
    Arguments arguments = {"generate", path("run").string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(tessera(ranks, arguments));
  }

  /// Likewise with a file as standard input.
  Outcome run_generate_with_input(int ranks, const std::string& file, const Arguments& more) const {
    Arguments command = {"sh", "-c", fmt::format("exec \"$@\" <{}", path(file).string()), "sh"};
    Arguments program = tessera(ranks, {"generate", path("run").string()});
    command.insert(command.end(), program.begin(), program.end());
    command.insert(command.end(), more.begin(), more.end());
    return run(command);
  }

  /// The lines that it writes for prompts, one on each line.
  std::vector<std::string> continuations(int ranks, const std::string& prompts,
                                         const Arguments& more) const {
    write_text(path("prompts.txt"), prompts);
    Arguments arguments = {"--input", path("prompts.txt").string(), "--output",
                           path("texts.tsv").string(), "--overwrite"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    expect_success(run_generate(ranks, arguments));
    std::istringstream file(read_text(path("texts.tsv")));
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    EXPECT_EQ(lines.empty() ? "" : lines[0], "generated_text");
    if (!lines.empty()) lines.erase(lines.begin());
    return lines;
  }

  /// Continues "3 times" with the likeliest tokens.
  std::string greedy_text(int ranks, const Arguments& more = {}) const {
    Arguments arguments = {"--prompt", "3 times", "--temperature", "0"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run_generate(ranks, arguments);
    expect_success(outcome);
    EXPECT_EQ(outcome.output.compare(0, 7, "3 times"), 0) << outcome.output;
    return outcome.output;
  }
};

TEST_F(CliGenerate, GeneratesSameTextOnEveryLayout) {
  for (const int tensor : {1, 2}) {
    SCOPED_TRACE(fmt::format("saved on {} tensor ranks", tensor));
    std::filesystem::remove_all(path("run"));
    expect_success(run_train(2, "run", {fmt::format("parallel.tensor={}", tensor)}));
    const std::string alone = greedy_text(kAlone, {"--max-tokens", "50"});  // the context is 16
    EXPECT_EQ(alone.size(), 7 + 50 + 1u);
    EXPECT_EQ(greedy_text(1, {"--max-tokens", "50"}), alone);
    EXPECT_EQ(greedy_text(2, {"--max-tokens", "50"}), alone);
  }
}

TEST_F(CliGenerate, SeedDeterminesText) {
  expect_success(run_train(kAlone, "run"));
  const auto text = [&](const std::string& seed) {
    const Outcome outcome = run_generate(kAlone, {"--prompt", "1", "--seed", seed});
    expect_success(outcome);
    return outcome.output;
  };
  EXPECT_EQ(text("1"), text("1"));
  EXPECT_NE(text("1"), text("2"));
  // The seed has no effect when the options leave only one choice.
  EXPECT_EQ(greedy_text(kAlone, {"--seed", "1"}), greedy_text(kAlone, {"--seed", "2"}));
  const Arguments one_token = {"--prompt", "3 times", "--top-k", "1"};
  EXPECT_EQ(run_generate(kAlone, one_token).output, greedy_text(kAlone));
}

TEST_F(CliGenerate, AcceptsEmptyAndLongPrompts) {
  expect_success(run_train(kAlone, "run", {"train.steps=3"}));
  expect_success(run_generate(2, {"--prompt", "", "--max-tokens", "3"}));
  const std::string longer(100, 'a');  // longer than the context
  expect_refused(run_generate(2, {"--prompt", longer, "--max-tokens", "3"}),
                 {"--prompt: the prompt has 100 tokens, but the model sees ", "--truncate"});
  const Outcome outcome = run_generate(2, {"--prompt", longer, "--max-tokens", "3", "--truncate"});
  expect_success(outcome);
  EXPECT_EQ(outcome.count(longer), 1u);
  EXPECT_EQ(run_generate(kAlone, {"--prompt", "a", "--max-tokens", "0"}).output, "a\n");
}

// Of 16 positions, 12 are left for the prompt, and the context never moves.
TEST_F(CliGenerate, TruncatesPromptsAtTheirBeginning) {
  expect_success(run_train(kAlone, "run"));
  const std::string prompt = "times 2 is 6, and that is all",
                    end = prompt.substr(prompt.size() - 12);
  const Arguments how = {"--temperature", "0", "--max-tokens", "4", "--truncate"};
  const auto continued = [&](const std::string& text) {
    Arguments arguments = {"--prompt", text};
    arguments.insert(arguments.end(), how.begin(), how.end());
    const Outcome outcome = run_generate(kAlone, arguments);
    expect_success(outcome);
    return outcome.output.substr(text.size());
  };
  const std::string expected = continued(end);
  EXPECT_EQ(continued(prompt), expected);
  EXPECT_EQ(continuations(2, prompt + "\n" + end + "\n", how),
            (std::vector<std::string>{expected.substr(0, 4), expected.substr(0, 4)}));
  expect_refused(run_generate(kAlone, {"--prompt", "a", "--truncate", "--max-tokens", "16"}),
                 {"--max-tokens, 16,", "model.seq_length is 16", "at most 15"});
}

TEST_F(CliGenerate, ReadsPromptFromStandardInput) {
  expect_success(run_train(kAlone, "run", {"train.steps=3"}));
  const std::string prompt = "3 * 5\n\n4 * 5\n";
  write_text(path("prompt.txt"), prompt);
  for (const int ranks : {kAlone, 2}) {
    const Outcome given = run_generate(ranks, {"--prompt", prompt, "--max-tokens", "9"});
    expect_success(given);
    EXPECT_EQ(given.output.compare(0, prompt.size(), prompt), 0) << given.output;
    const Arguments from_input = {"--prompt", "-", "--max-tokens", "9"};
    EXPECT_EQ(run_generate_with_input(ranks, "prompt.txt", from_input).output, given.output);
    // Tests run with an empty standard input.
    EXPECT_EQ(run_generate(ranks, {"--prompt", "-"}).output,
              run_generate(ranks, {"--prompt", ""}).output);
  }
}

TEST_F(CliGenerate, RefusesPromptThatDoesNotEnd) {
  expect_success(run_train(kAlone, "run", {"train.steps=3"}));
  write_text(path("long.txt"), std::string((size_t{16} << 20) + 1, 'a'));
  for (const char* option : {"--prompt", "--ids"}) {
    expect_refused(run_generate_with_input(2, "long.txt", {option, "-"}),
                   {option, "standard input has more than 16777216 bytes", "shorten it"});
  }
}

TEST_F(CliGenerate, StopsAtStrings) {
  expect_success(run_train(kAlone, "run"));
  const std::string prompt = "3 times";
  const std::string whole = greedy_text(kAlone, {"--max-tokens", "60"});
  const std::string generated = whole.substr(prompt.size(), whole.size() - prompt.size() - 1);
  const auto cut_at = [&](const std::vector<std::string>& stops) {
    const std::string_view cut = StopStrings(stops).cut(generated);
    EXPECT_LT(cut.size(), generated.size());
    return fmt::format("{}{}\n", prompt, cut);
  };
  const std::string stop = generated.substr(20, 3);
  const std::string over_the_prompt = prompt + generated[0];
  for (const int ranks : {kAlone, 2}) {
    const auto text = [&](const Arguments& stops) {
      Arguments arguments = {"--max-tokens", "60"};
      arguments.insert(arguments.end(), stops.begin(), stops.end());
      return greedy_text(ranks, arguments);
    };
    EXPECT_EQ(text({"--stop", stop}), cut_at({stop}));
    EXPECT_EQ(text({"--stop", stop, "--stream"}), cut_at({stop}));
    EXPECT_EQ(text({"--stop", stop, "--stop", " ", "--stop", "[a,b]"}), cut_at({stop, " "}));
    EXPECT_EQ(text({"--stop", over_the_prompt}), whole);
    expect_refused(run_generate(ranks, {"--prompt", "a", "--stop", ""}), {"--stop"});
    expect_refused(run_generate(ranks, {"--ids", "1 2", "--stop", "a"}),
                   {"--stop is a text", "--ids"});
  }
}

TEST_F(CliGenerate, PenalizesRepetitionsOnEveryLayout) {
  expect_success(run_train(kAlone, "run"));
  const Arguments off = {"--repetition-penalty", "1"}, on = {"--repetition-penalty", "1.5"};
  const std::string text = greedy_text(kAlone, on);
  EXPECT_NE(text, greedy_text(kAlone));
  EXPECT_EQ(greedy_text(kAlone, off), greedy_text(kAlone));
  EXPECT_EQ(greedy_text(2, on), text);
  expect_refused(run_generate(2, {"--prompt", "a", "--repetition-penalty", "0"}),
                 {"--repetition-penalty is 0: it is a positive number, and 1 means no penalty"});
}

TEST_F(CliGenerate, StreamsOneText) {
  expect_success(run_train(kAlone, "run"));
  const std::string text = greedy_text(kAlone, {"--max-tokens", "40"});
  EXPECT_EQ(greedy_text(kAlone, {"--max-tokens", "40", "--stream"}), text);
  EXPECT_EQ(greedy_text(2, {"--max-tokens", "40", "--stream"}), text);
  EXPECT_EQ(greedy_text(2, {"--max-tokens", "40", "--no-stream"}), text);
  const std::string shown = text.substr(0, text.size() - 1);
  for (const int ranks : {kAlone, 2}) {
    Program endless(tessera(ranks, {"generate", path("run").string(), "--prompt", "3 times",
                                    "--temperature", "0", "--max-tokens", "10000000", "--stream"}));
    EXPECT_TRUE(endless.wait_for(shown)) << endless.output();
  }
  write_text(path("prompts.txt"), "a\n");
  expect_refused(run_generate(2, {"--input", path("prompts.txt").string(), "--output",
                                  path("texts.tsv").string(), "--stream"}),
                 {"--stream shows a text while it is generated", "--input"});
  expect_refused(run_generate(kAlone, {"--prompt", "a", "--stream", "--no-stream"}),
                 {" excludes "});
}

TEST_F(CliGenerate, ShowsControlCharactersOnATerminalOnly) {
  expect_success(run_train(kAlone, "run", {"train.steps=3"}));
  write_text(path("prompt.txt"), "1 \x1b[31m \xc3\xa9");
  const Arguments plain = {"--prompt", "-", "--max-tokens", "0"};
  EXPECT_EQ(run_generate_with_input(kAlone, "prompt.txt", plain).output, "1 \x1b[31m \xc3\xa9\n");
  const std::string script =
      fmt::format("'{}' generate '{}' --prompt - --max-tokens 0 <'{}'", TESSERA_BINARY,
                  path("run").string(), path("prompt.txt").string());
  for (const char* option : {"", " --stream", " --no-stream"}) {
    const Outcome shown = run({"script", "-qec", script + option, "/dev/null"});
    EXPECT_EQ(shown.count("1 \\x1b[31m \xc3\xa9\r\n"), 1u) << shown.output;
  }
}

TEST_F(CliGenerate, ContinuesPromptsOfAFile) {
  expect_success(run_train(kAlone, "run"));
  const std::vector<std::string> prompts = {"3 times", "-", "7", "5 is 1, and that", "9 times"};
  std::string lines;
  for (const std::string& prompt : prompts) lines += prompt + "\n";
  const std::vector<Arguments> ways = {
      {"--temperature", "0", "--max-tokens", "30"},
      {"--seed", "4", "--max-tokens", "30", "--stop", "\n", "--repetition-penalty", "1.1"}};
  for (const Arguments& way : ways) {
    SCOPED_TRACE(way[0]);
    const std::vector<std::string> found = continuations(kAlone, lines, way);
    ASSERT_EQ(found.size(), prompts.size());
    Arguments alone = {"--prompt", prompts[0]};
    alone.insert(alone.end(), way.begin(), way.end());
    std::string text = run_generate(kAlone, alone).output;
    ASSERT_EQ(text.compare(0, prompts[0].size(), prompts[0]), 0) << text;
    text = text.substr(prompts[0].size(), text.size() - prompts[0].size() - 1);
    for (char& c : text) c = c == '\n' || c == '\t' || c == '\r' ? ' ' : c;
    EXPECT_EQ(found[0], text);
    Arguments sharded = way;
    sharded.insert(sharded.end(), {"--tensor", "2", "--micro-batch", "2"});
    EXPECT_EQ(continuations(2, lines, way), found) << "on 2 data ranks";
    EXPECT_EQ(continuations(2, lines, sharded), found) << "on 2 tensor ranks";
    EXPECT_EQ(continuations(kAlone, prompts[0] + "\n" + prompts[1] + "\n", way),
              std::vector(found.begin(), found.begin() + 2));
  }
  expect_refused(run_generate(2, {"--input", path("prompts.txt").string(), "--output",
                                  path("texts.txt").string()}),
                 {"texts.txt", ".tsv, .csv or .jsonl"});
}

TEST_F(CliGenerate, NeverSamplesTokensOutsideTokenizer) {
  // An untrained model would hardly choose 50 bytes in a row out of 4096 tokens.
  expect_success(run_train(kAlone, "run", {"model.vocab_size=4096", "train.steps=3"}));
  expect_success(run_generate(kAlone, {"--prompt", "a", "--max-tokens", "50"}));
}

TEST_F(CliGenerate, ReportsSkippedCheckpoints) {
  expect_success(run_train(kAlone, "run", {"train.steps=4", "checkpoint.interval=2"}));
  ASSERT_EQ(checkpoints("run").size(), 2u);
  const std::string newest = checkpoints("run").back();
  std::filesystem::remove(path("run") / "checkpoints" / newest / "tokenizer.json");
  for (const int ranks : {kAlone, 2}) {
    const Outcome outcome = run_generate(ranks, {"--prompt", "a"});
    expect_success(outcome);
    EXPECT_EQ(outcome.count("warning: passed over " + newest + ": damaged: "), 1u)
        << outcome.output;
  }
}

TEST_F(CliGenerate, RejectsInvalidOptions) {
  expect_success(run_train(kAlone, "run", {"train.steps=3"}));
  for (const int ranks : {kAlone, 2}) {
    expect_refused(run_generate(ranks, {"--prompt", "a", "--temperature", "-1"}),
                   {"--temperature is -1: it is 0 (the likeliest token) or a positive number"});
    expect_refused(run_generate(ranks, {"--prompt", "a", "--seed", "-1"}),
                   {"--seed: '-1' is not a whole number from 0 on"});
    expect_refused(run_generate(ranks, {"--prompt"}), {"tessera generate: --prompt: "});
    const std::string nowhere = path("nowhere").string();
    expect_refused(run(tessera(ranks, {"generate", nowhere, "--prompt", "a"})),
                   {nowhere + " is not a folder: pass a run's folder, or one of its steps"});
  }
  const Outcome three = run_generate(kAlone, {"--prompt", "a", "--num-samples", "3"});
  EXPECT_EQ(
      run_generate(kAlone, {"--prompt", "a", "--num-samples", "3", "--micro-batch", "2"}).output,
      three.output);
  const Outcome one = run_generate(kAlone, {"--prompt", "a"});
  EXPECT_EQ(run_generate(3, {"--prompt", "a"}).output, one.output);  // of 4 heads: 2, 1 and 1
}

TEST_F(CliGenerate, PromptHasAtLeastThePrefix) {
  expect_success(run_train(2, "run", {"train.steps=3", "model.attention_prefix=4"}));
  const Outcome one = run_generate(kAlone, {"--prompt", "abcd"});
  expect_success(one);  // and outgrows the context
  for (const int ranks : {kAlone, 2}) {
    EXPECT_EQ(run_generate(ranks, {"--prompt", "abcd"}).output, one.output);
    expect_refused(run_generate(ranks, {"--prompt", "abc"}),
                   {"the prompt has 3 tokens", "(model.attention_prefix)", "at least 4 tokens"});
  }
}

}  // namespace
}  // namespace tessera::test
