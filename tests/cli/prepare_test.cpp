#include <fmt/format.h>
#include <gtest/gtest.h>

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
                 {"-:1: the line is a JSON array"});
  expect_refused(run_prepare("", "--input $IN --field text"), {"--field is for JSON lines"});
  expect_refused(run_prepare("gzip -c $IN | head -c 50 |", "--input -"),
                 {"-: ends after byte 50", "incomplete"});
  EXPECT_FALSE(std::filesystem::exists(path("out.bin")));
  EXPECT_FALSE(std::filesystem::exists(path("out.bin.tmp")));
}

TEST_F(CliPrepare, DrawsProgressOnlyOnTerminals) {
  const Outcome outcome = run_prepare("", "--input $IN");
  EXPECT_EQ(outcome.count("left"), 0u) << outcome.output;
  EXPECT_EQ(outcome.count("\r"), 0u) << outcome.output;
  const Outcome watched = run({"script", "-qec",
                               fmt::format("{} prepare --input {} --output {}", TESSERA_BINARY,
                                           path("text.txt").string(), path("watched").string()),
                               "/dev/null"});
  if (watched.exit_code == 127) GTEST_SKIP() << "there is no script(1)";
  expect_success(watched);
  EXPECT_GE(watched.count("100%"), 1u) << watched.output;
}

}  // namespace
}  // namespace tessera::test
