#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/exit_code.h"
#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

class CliPrepare : public SmallRun {
 protected:
  /// Runs `tessera prepare` in a shell. $IN is the text, $OUT the dataset.
  Outcome run_prepare(const std::string& before, const std::string& words) const {
    const std::string script =
        fmt::format("IN={}; OUT={}; {} {} prepare {} --output $OUT --overwrite",
                    path("text.txt").string(), path("out").string(), before, TESSERA_BINARY, words);
    return run({"sh", "-c", script});
  }

  std::string tokens() const { return read_text(path("out.bin")); }
};

TEST_F(CliPrepare, ReadsStandardInputFilesAndPatterns) {
  expect_success(run_prepare("", "--input $IN"));
  const std::string plain = tokens();
  EXPECT_EQ(plain.size(), 2 * read_text(path("text.txt")).size());
  expect_success(run_prepare("cat $IN |", "--input -"));
  EXPECT_EQ(tokens(), plain);
  expect_success(run_prepare("gzip -c $IN |", "--input - --threads 2"));
  EXPECT_EQ(tokens(), plain);
  expect_success(run_prepare("", "--input \"${IN%t.txt}*.txt\""));
  EXPECT_EQ(tokens(), plain);
  // The whole word is in brackets, but it is a pattern and not a list.
  expect_success(run_prepare("cp $IN ${IN%text.txt}x; cd ${IN%text.txt};", "--input '[x]'"));
  EXPECT_EQ(tokens(), plain);
  expect_success(run_prepare("", "--input $IN $IN"));
  EXPECT_EQ(tokens(), plain + plain);
  expect_success(run_prepare("echo '{\"a\": \"abc\"}' |", "--input - --format jsonl --field a"));
  EXPECT_EQ(tokens(), std::string("a\0b\0c\0", 6));
}

TEST_F(CliPrepare, TrainsVocabularyFromSameInputs) {
  const auto train_vocabulary = [&](const std::string& before, const std::string& input) {
    expect_success(
        run({"sh", "-c",
             fmt::format("{} {} tokenizer train --kind wordpiece --vocab-size 60 --input "
                         "'{}' --output {} --overwrite",
                         before, TESSERA_BINARY, input, path("vocab.txt").string())}));
    return read_text(path("vocab.txt"));
  };
  const std::string text = path("text.txt").string();
  const std::string plain = train_vocabulary("", text);
  EXPECT_EQ(train_vocabulary("gzip -c " + text + " |", "-"), plain);
  EXPECT_EQ(train_vocabulary("", path("te*.txt").string()), plain);
}

TEST_F(CliPrepare, FailedTrainingLeavesNoFolder) {
  for (const char* kind : {"wordpiece", "bpe", "sentencepiece"}) {
    const std::string script = fmt::format(
        "gzip -c {} | head -c 50 | {} tokenizer train --kind {} --vocab-size 60 "
        "--input - --output {}/file",
        path("text.txt").string(), TESSERA_BINARY, kind, path("new").string());
    expect_refused(run({"sh", "-c", script}), {"incomplete"});
    EXPECT_FALSE(std::filesystem::exists(path("new"))) << kind;
  }
}

TEST_F(CliPrepare, RejectsUnreadableInput) {
  expect_refused(run_prepare("", "--input $IN.*"), {"text.txt.*: matches no file"});
  expect_refused(run_prepare("echo '[1]' |", "--input - --format jsonl"),
                 {"-:1: the line is an array"});
  expect_refused(run_prepare("", "--input $IN --field text"), {"--field is for JSON lines"});
  expect_refused(run_prepare("gzip -c $IN | head -c 50 |", "--input -"),
                 {"-: ends after byte 50", "incomplete"});
  EXPECT_FALSE(std::filesystem::exists(path("out.bin")));
  EXPECT_FALSE(std::filesystem::exists(path("out.bin.tmp")));
}

TEST_F(CliPrepare, DrawsProgressOnTerminals) {
  const Outcome outcome = run_prepare("", "--input $IN");
  EXPECT_EQ(outcome.count(" left"), 0u) << outcome.output;  // a line is due after half a minute
  EXPECT_EQ(outcome.count("\r"), 0u) << outcome.output;
  const auto watched = [&](const char* options) {
    return run({"script", "-qec",
                fmt::format("{} prepare --overwrite --input {} --output {} {}", TESSERA_BINARY,
                            path("text.txt").string(), path("watched").string(), options),
                "/dev/null"});
  };
  const Outcome drawn = watched("");
  if (drawn.exit_code == 127) GTEST_SKIP() << "there is no script(1)";
  expect_success(drawn);
  EXPECT_GE(drawn.count("100%  "), 1u) << drawn.output;
  EXPECT_GE(drawn.count(" tokens/s  0s left  3.52 k tokens  1 documents"), 1u) << drawn.output;
  const Outcome quiet = watched("--quiet");
  expect_success(quiet);
  EXPECT_EQ(quiet.count("tokens/s"), 0u) << quiet.output;
  EXPECT_EQ(quiet.count("wrote "), 1u) << quiet.output;
}

TEST_F(CliPrepare, ReportsAndDropsDuplicatesAndShuffles) {
  const std::string text =
      "echo 'one two three four five six\none\none two three four five six\n"
      "\nlast' |";
  const std::string options = "--input - --documents line --near-duplicates 0.9 ";
  const Outcome counted = run_prepare(text, options);
  expect_success(counted);
  EXPECT_EQ(counted.count("\ndocuments  4; 1 without a token were left out\n"), 1u)
      << counted.output;
  EXPECT_EQ(counted.count("duplicates 1 (25.00%) have the text of an earlier document, 0 (0.00%) "
                          "nearly\n"),
            1u)
      << counted.output;
  EXPECT_EQ(counted.count("  document     15.2       4   27   27       27\n"), 1u)
      << counted.output;
  expect_success(run_prepare(text, options + "--drop-duplicates --threads 2"));
  const std::string kept = tokens();
  EXPECT_EQ(kept.size(), 2 * std::string("one two three four five sixonelast").size());
  const Outcome shuffled = run_prepare(text, options + "--drop-duplicates --shuffle 3");
  expect_success(shuffled);
  EXPECT_EQ(shuffled.count(
                "documents  3; 1 without a token were left out; in a random order with seed 3\n"),
            1u)
      << shuffled.output;
  EXPECT_EQ(shuffled.count("; they were left out\n"), 1u) << shuffled.output;
  EXPECT_EQ(tokens().size(), kept.size());
  expect_refused(run_prepare(text, "--input - --near-duplicates 0.1"), {"--near-duplicates"});
  expect_refused(run_prepare(text, options + "--shuffle -1"), {"--shuffle: '-1' is not a whole"});
}

TEST_F(CliPrepare, ChecksDatasets) {
  const auto check = [&](const Arguments& arguments) {
    Arguments all = {"prepare", "--check"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return run(tessera(kAlone, all));
  };
  const Outcome whole = check({dataset()});
  expect_success(whole);
  EXPECT_EQ(whole.count(": no fault found\n"), 1u) << whole.output;
  EXPECT_EQ(whole.count(" tokens (uint16), ids 10 to 256"), 1u) << whole.output;
  expect_success(check({dataset(), "--tokenizer", "byte"}));
  const auto expect_fault = [](const Outcome& outcome, const Arguments& facts) {
    expect_refused(outcome, facts);
    EXPECT_EQ(outcome.exit_code, static_cast<int>(ExitCode::data)) << outcome.output;
  };
  expect_fault(check({dataset(), "--tokenizer", "none", "--vocab-size", "256"}),
               {dataset() + ".bin: the token at position", " is 256, but the vocabulary has 256"});
  // All are checked, in spite of the fault of one.
  const Outcome two = check({path("none").string(), dataset()});
  expect_fault(two,
               {"1 of 2 datasets have a fault:\nthere is no dataset " + path("none").string()});
  EXPECT_EQ(two.count("no fault found"), 1u) << two.output;
  std::string index = read_text(dataset() + ".idx");
  index[38] = 9;  // a pointer
  write_text(dataset() + ".idx", index);
  expect_fault(check({dataset()}), {dataset() + ".idx: sequence pointer 0 is 9 (byte 38)"});
  expect_refused(check({dataset(), "--output", "x"}), {"--output does not apply to --check"});
  expect_refused(run(tessera(kAlone, {"prepare", "--output", "x"})), {"--input is required"});
}

}  // namespace
}  // namespace tessera::test
