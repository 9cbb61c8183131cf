#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

namespace fs = std::filesystem;

class CliTokenizer : public SmallRun {
 protected:
  Outcome train_tokenizer(const Arguments& more) const {
    Arguments arguments = {"tokenizer", "train",     "--kind",
                           "wordpiece", "--input",   path("text.txt").string(),
                           "--output",  vocabulary()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(tessera(kAlone, arguments));
  }

  Outcome run_prepare(const Arguments& more) const {
    Arguments arguments = {"prepare",
                           "--tokenizer",
                           "wordpiece:" + vocabulary(),
                           "--input",
                           path("text.txt").string(),
                           "--output",
                           path("pieces").string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(tessera(kAlone, arguments));
  }

  std::string vocabulary() const { return path("vocab.txt").string(); }
};

TEST_F(CliTokenizer, TrainsPreparesAndGenerates) {
  const Outcome outcome = train_tokenizer({"--vocab-size", "60"});
  expect_success(outcome);
  EXPECT_EQ(outcome.count(fmt::format("wrote {}: 60 tokens from ", vocabulary())), 1u)
      << outcome.output;
  EXPECT_EQ(read_text(vocabulary()).substr(0, 31), "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n");

  const Outcome dataset = run_prepare({"--documents", "line"});
  expect_success(dataset);
  EXPECT_EQ(dataset.count(": 100 documents, 100 sequences, "), 1u) << dataset.output;
  EXPECT_EQ(dataset.count("unknown tokens: 0 (0.00%)"), 1u) << dataset.output;

  const Arguments keys = {"data.train=" + path("pieces").string(),
                          "data.tokenizer=wordpiece:" + vocabulary(), "model.vocab_size=60"};
  expect_success(run_train(2, "run", keys));
  // The checkpoint contains its tokenizer.
  fs::rename(vocabulary(), path("elsewhere.txt"));
  expect_success(run(tessera(kAlone, {"verify", path("run").string()})));
  for (const int ranks : {kAlone, 2}) {
    const Outcome text =
        run(tessera(ranks, {"generate", path("run").string(), "--prompt", "3 times",
                            "--temperature", "0", "--max-tokens", "8"}));
    expect_success(text);
    EXPECT_EQ(text.output.compare(0, 8, "3 times "), 0) << text.output;
    EXPECT_EQ(text.count("##"), 0u) << text.output;
  }
  expect_refused(run(tessera(2, {"generate", path("run").string(), "--prompt", ""})),
                 {"--prompt is empty, and tokenizer wordpiece has no end-of-document token"});
}

TEST_F(CliTokenizer, ReportsDifferentTokenizerOnResume) {
  expect_success(train_tokenizer({"--vocab-size", "60"}));
  expect_success(run_prepare({}));
  fs::remove(path("pieces.meta.json"));  // otherwise the data is rejected first
  const auto keys = [&](const std::string& kind) {
    return Arguments{"data.train=" + path("pieces").string(),
                     "data.tokenizer=" + kind + ":" + vocabulary(), "model.vocab_size=60",
                     "checkpoint.interval=10"};
  };
  Arguments first = keys("wordpiece");
  first.emplace_back("--stop-at=10");
  expect_success(run_train(kAlone, "run", first));
  const Outcome resumed = run_train(2, "run", keys("wordpiece-cased"));
  expect_success(resumed);
  EXPECT_EQ(resumed.count("which is not the tokenizer stored in "), 1u) << resumed.output;
  const Outcome started = run_train(kAlone, "other", [&] {
    Arguments from = keys("wordpiece-cased");
    from.push_back("checkpoint.from=" + path("run").string());
    return from;
  }());
  expect_success(started);
  EXPECT_EQ(started.count("which is not the tokenizer stored in "), 0u) << started.output;
}

TEST_F(CliTokenizer, RefusesToGoOnWithDataOfAnotherTokenizer) {
  expect_success(train_tokenizer({"--vocab-size", "60"}));
  expect_success(run_prepare({}));
  expect_success(
      run(tessera(kAlone, {"prepare", "--tokenizer", "wordpiece-cased:" + vocabulary(), "--input",
                           path("text.txt").string(), "--output", path("cased").string()})));
  const auto keys = [&](const char* data) {
    return Arguments{"data.train=" + path(data).string(), "model.vocab_size=60",
                     "checkpoint.interval=10"};
  };
  Arguments first = keys("pieces");
  first.emplace_back("--stop-at=10");
  expect_success(run_train(kAlone, "run", first));
  expect_refused(run_train(2, "run", keys("cased")),
                 {"cased.meta.json", "wordpiece-cased with 60 tokens", "the tokenizer of the run"});
  Arguments branch = keys("cased");
  branch.push_back("checkpoint.from=" + path("run").string());
  expect_refused(run_train(2, "branch", branch),
                 {"data.tokenizer is auto", "wordpiece-cased with 60 tokens",
                  "which is not the tokenizer stored in", "--tokenizer tessera:"});
}

TEST_F(CliTokenizer, RejectsInvalidRequests) {
  expect_refused(train_tokenizer({"--vocab-size", "5"}),
                 {"has 5 tokens, but 5 special tokens and the "});
  EXPECT_FALSE(fs::exists(vocabulary()));
  expect_refused(train_tokenizer({"--vocab-size", "0"}),
                 {"--vocab-size: '0' is not a whole number from 1 on"});
  expect_success(train_tokenizer({"--vocab-size", "60"}));
  expect_refused(train_tokenizer({"--vocab-size", "60"}), {"already exists", "--overwrite"});
  expect_success(train_tokenizer({"--vocab-size", "50", "--overwrite", "--cased"}));
  expect_refused(train_tokenizer({"--vocab-size", "60", "--kind", "unigram"}), {"--kind"});
  expect_refused(run(tessera(kAlone, {"tokenizer", "train", "--kind", "wordpiece", "--input",
                                      path("none").string(), "--output", vocabulary(),
                                      "--vocab-size", "60", "--overwrite"})),
                 {"tokenizer train: 1 of 1 inputs cannot be read", "No such file"});
  expect_refused(run(tessera(kAlone, {"tokenizer"})), {"tessera tokenizer"});

  expect_success(run_prepare({}));
  for (const int ranks : {kAlone, 2}) {
    expect_refused(run_train(ranks, "run",
                             {"data.train=" + path("pieces").string(),
                              "data.tokenizer=wordpiece:" + vocabulary(), "model.vocab_size=49"}),
                   {"model.vocab_size is 49, but data.tokenizer is wordpiece:" + vocabulary() +
                    ", which has 50 tokens: choose 50 or more"});
    expect_refused(run_train(ranks, "run", {"data.tokenizer=wordpiece"}),
                   {"data.tokenizer is wordpiece, but must be one of: byte, "});
    expect_refused(run_train(ranks, "run", {"data.tokenizer=wordpiece:/nowhere/vocab.txt"}),
                   {"/nowhere/vocab.txt"});
  }
  write_text(vocabulary(), "[UNK]\na\n\nb\n");
  expect_refused(run_prepare({"--overwrite"}), {vocabulary() + ": line 3 is empty"});
}

TEST_F(CliTokenizer, TrainsPreparesAndGeneratesWithSentencePiece) {
  const std::string model = path("text.model").string();
  const auto train = [&](const Arguments& more) {
    Arguments arguments = {"tokenizer",     "train",   "--kind",
                           "sentencepiece", "--input", path("text.txt").string(),
                           "--output",      model};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(tessera(kAlone, arguments));
  };
  expect_refused(train({"--vocab-size", "60000"}),
                 {"vocabulary has 60000 tokens, but the text yields "});
  expect_refused(train({"--vocab-size", "30", "--cased"}),
                 {"--cased does not apply to --kind sentencepiece"});
  EXPECT_FALSE(fs::exists(model));
  const Outcome outcome = train({"--vocab-size", "30", "--model-type", "bpe"});
  expect_success(outcome);
  EXPECT_EQ(outcome.count(fmt::format("wrote {}: 30 tokens; as a tokenizer: sentencepiece:{}\n",
                                      model, model)),
            1u)
      << outcome.output;
  expect_success(run(tessera(kAlone, {"prepare", "--tokenizer", "sentencepiece:" + model, "--input",
                                      path("text.txt").string(), "--output",
                                      path("pieces").string(), "--documents", "line"})));
  expect_success(run_train(2, "run",
                           {"data.train=" + path("pieces").string(),
                            "data.tokenizer=sentencepiece:" + model, "model.vocab_size=60"}));
  fs::remove(model);
  const Outcome text = run(tessera(2, {"generate", path("run").string(), "--prompt", "3 times",
                                       "--temperature", "0", "--max-tokens", "8"}));
  expect_success(text);
  EXPECT_EQ(text.output.compare(0, 7, "3 times"), 0) << text.output;
}

}  // namespace
}  // namespace tessera::test
