#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

namespace fs = std::filesystem;
using testing::ContainsRegex;
using testing::HasSubstr;

/// Runs with a byte-level BPE tokenizer that is trained on their own text.
class CliBpe : public SmallRun {
 protected:
  Outcome train_tokenizer(const Arguments& more = {}) const {
    Arguments arguments = {"tokenizer", "train",    "--kind", "bpe",          "--input",
                           text(),      "--output", folder(), "--vocab-size", "320"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(tessera(kAlone, arguments));
  }

  Outcome run_prepare(const std::string& tokenizer) const {
    return run(tessera(kAlone, {"prepare", "--tokenizer", tokenizer, "--documents", "line",
                                "--input", text(), "--output", path("pieces").string()}));
  }

  Arguments keys(const Arguments& more = {}) const {
    Arguments keys = {"data.train=" + path("pieces").string(), "data.tokenizer=bpe:" + folder(),
                      "model.vocab_size=320"};
    keys.insert(keys.end(), more.begin(), more.end());
    return keys;
  }

  Outcome run_on_checkpoint(int ranks, const std::string& command, const Arguments& more) const {
    Arguments arguments = {command, path("run").string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(tessera(ranks, arguments));
  }

  std::string text() const { return path("text.txt").string(); }
  std::string folder() const { return path("bpe").string(); }
};

TEST_F(CliBpe, TrainsPreparesAndGenerates) {
  const Outcome outcome = train_tokenizer();
  expect_success(outcome);
  EXPECT_EQ(outcome.count(
                fmt::format("wrote {0}/vocab.json and {0}/merges.txt: 320 tokens from ", folder())),
            1u)
      << outcome.output;
  EXPECT_EQ(outcome.count("as a tokenizer: bpe:" + folder() + "\n"), 1u) << outcome.output;
  EXPECT_THAT(read_text(folder() + "/vocab.json"), HasSubstr("\"<|endoftext|>\":319}"));
  EXPECT_THAT(read_text(folder() + "/merges.txt"), testing::StartsWith("#version: 0.2\n"));

  expect_success(run_prepare("bpe:" + folder()));
  expect_success(run_train(2, "run", keys({"parallel.tensor=2"})));
  fs::rename(folder(), path("elsewhere"));  // the checkpoint contains its tokenizer
  for (const int ranks : {kAlone, 2}) {
    const Outcome said = run_on_checkpoint(
        ranks, "generate", {"--prompt", "3 times", "--temperature", "0", "--max-tokens", "8"});
    expect_success(said);
    EXPECT_EQ(said.output.compare(0, 8, "3 times "), 0) << said.output;
    EXPECT_EQ(said.count("Ġ"), 0u) << said.output;
  }
  const Outcome spelled = run_on_checkpoint(
      2, "generate",
      {"--prompt", "3 times<|endoftext|>", "--temperature", "0", "--max-tokens", "2"});
  expect_success(spelled);
  EXPECT_EQ(spelled.count("note: --prompt contains <|endoftext|> as plain text, as in training "
                          "data: to pass the special token, use its id, 319, with --ids"),
            1u)
      << spelled.output;
  expect_success(run_on_checkpoint(kAlone, "attention",
                                   {"--text", "3 times 4", "--output", path("look").string()}));
  EXPECT_THAT(read_text(path("look.json")), HasSubstr("\" times\""));
}

TEST_F(CliBpe, FillsMasksAndClassifiesWithBert) {
  expect_success(train_tokenizer({"--special", "[PAD]", "--special", "[UNK]", "--special", "[CLS]",
                                  "--special", "[SEP]", "--special", "[MASK]"}));
  expect_success(run_prepare("bpe:" + folder()));
  expect_success(run_train(2, "run", keys({"model.kind=bert", "parallel.tensor=2"})));
  const Outcome filled =
      run_on_checkpoint(2, "fill-mask", {"--text", "7 times [MASK] is 7", "--top", "3"});
  expect_success(filled);
  EXPECT_THAT(filled.output, ContainsRegex("^ *[0-9.]+%  .*7 times.* is 7\n"));

  std::string texts = "text\tlabel\n";
  for (int i = 0; i < 40; ++i) texts += i % 2 == 0 ? "7 times 7\tsum\n" : "that is all\tend\n";
  write_text(path("texts.tsv"), texts);
  expect_success(
      run_train(kAlone, "run2",
                keys({"model.kind=bert", "model.head=classification", "model.num_labels=2",
                      "data.labels=sum,end", "data.train=" + path("texts.tsv").string()})));
  const Outcome classified =
      run(tessera(kAlone, {"classify", path("run2").string(), "--text", "7 times 7"}));
  expect_success(classified);
  EXPECT_EQ(classified.count("%  "), 2u) << classified.output;
}

TEST_F(CliBpe, InspectShowsAddedTokens) {
  expect_success(train_tokenizer({"--special", "<x>"}));
  const Outcome shown = run(tessera(kAlone, {"inspect", "bpe:" + folder()}));
  expect_success(shown);
  EXPECT_THAT(shown.output, HasSubstr(", <x> ("));
}

TEST_F(CliBpe, RejectsInvalidRequests) {
  expect_refused(train_tokenizer({"--special", "<s>", "--special", "<s>"}), {"both \"<s>\""});
  expect_refused(train_tokenizer({"--cased"}), {"--cased does not apply to --kind bpe: remove it"});
  EXPECT_FALSE(fs::exists(folder()));
  expect_success(train_tokenizer());
  expect_refused(train_tokenizer(), {folder() + "/vocab.json already exists"});
  fs::remove(folder() + "/vocab.json");
  expect_refused(train_tokenizer(), {folder() + "/merges.txt already exists"});
  const Outcome again = train_tokenizer({"--overwrite", "--min-count", "1000000"});
  expect_success(again);
  EXPECT_EQ(again.count("257 tokens from "), 1u) << again.output;
  EXPECT_EQ(again.count("fewer than the 320 requested"), 1u) << again.output;
  write_text(folder() + "/merges.txt", "#version: 0.2\nx yz\n");
  expect_refused(run_prepare("bpe:" + folder()),
                 {folder() + "/merges.txt: line 2: the merge \"x yz\""});
  write_text(path("tokenizer.json"), "{\"model\":{\"type\":\"WordLevel\"}}");
  expect_refused(run_prepare("huggingface:" + path("tokenizer.json").string()),
                 {"tokenizer.json: \"model\" is \"WordLevel\", but only \"BPE\", \"Unigram\" or "
                  "\"WordPiece\""});
}

TEST_F(CliBpe, RefusesToReplaceAFolderBeforeItChangesAnything) {
  expect_success(train_tokenizer());
  const std::string merges = read_text(folder() + "/merges.txt");
  fs::remove(folder() + "/vocab.json");
  fs::create_directories(folder() + "/vocab.json/in the way");
  expect_refused(train_tokenizer({"--overwrite"}), {folder() + "/vocab.json"});
  EXPECT_EQ(read_text(folder() + "/merges.txt"), merges);
}

}  // namespace
}  // namespace tessera::test
