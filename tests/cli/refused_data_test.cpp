#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/exit_code.h"
#include "launch/data/indexed/dataset_metadata.h"
#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

namespace fs = std::filesystem;

class CliBadData : public SmallRun {
 protected:
  void expect_data_refused(const Arguments& facts, const Arguments& overrides = {}) const {
    for (const int ranks : {kAlone, 2}) {
      expect_refused(run_train(ranks, "run", overrides), facts);
      EXPECT_TRUE(losses("run").empty());
      EXPECT_TRUE(checkpoints("run").empty());
    }
  }

  fs::path bin() const { return dataset() + ".bin"; }
  fs::path idx() const { return dataset() + ".idx"; }
};

TEST_F(CliBadData, RejectsMissingFiles) {
  const std::string nowhere = path("nowhere").string();
  expect_data_refused({"there is no dataset " + nowhere + ":"}, {"data.train=" + nowhere});
  expect_data_refused({bin().string() + ": a dataset is named by"},
                      {"data.train=" + bin().string()});
  fs::remove(bin());
  expect_data_refused({bin().string(), "No such file or directory"});
}

TEST_F(CliBadData, RejectsTruncatedFiles) {
  fs::resize_file(bin(), fs::file_size(bin()) - 2);
  expect_data_refused({bin().string(), idx().string()});
  fs::resize_file(idx(), fs::file_size(idx()) - 1);
  expect_data_refused({idx().string()});
  fs::resize_file(idx(), 20);
  expect_data_refused({idx().string() + ": has 20 bytes"});
}

TEST_F(CliBadData, NamesAFileThatIsTruncatedWhileARunReadsIt) {
  const std::string size = fmt::format("{}", fs::file_size(bin()));
  fs::copy_file(bin(), path("copy"));
  for (const int ranks : {kAlone, 2}) {
    Program program(tessera(ranks, train(fmt::format("run{}", ranks), {"train.steps=1000000"})));
    ASSERT_TRUE(program.wait_for("step   ")) << program.output();
    fs::resize_file(bin(), 0);
    const Outcome outcome = program.wait();
    EXPECT_EQ(outcome.exit_code, static_cast<int>(ExitCode::data)) << outcome.output;
    EXPECT_GE(outcome.count(fmt::format("{}: has 0 bytes, but had {} when it was opened",
                                        bin().string(), size)),
              1u)
        << outcome.output;
    EXPECT_GE(outcome.count(ranks == kAlone ? "error: " : "tessera: rank "), 1u) << outcome.output;
    fs::copy_file(path("copy"), bin(), fs::copy_options::overwrite_existing);
  }
}

TEST_F(CliBadData, RejectsForeignIndex) {
  write_text(idx(), std::string(1000, 'x'));
  expect_data_refused({"this is not the index of a Megatron-LM dataset"});
}

TEST_F(CliBadData, RejectsDatasetShorterThanOneSample) {
  write_text(path("short.txt"), "sixteen letters");
  const std::string output = path("short").string();
  expect_success(run(tessera(kAlone, {"prepare", "--append-eod", "--input",
                                      path("short.txt").string(), "--output", output})));
  expect_data_refused({output + ": tokens [0, 16) are 16 tokens, but one sample", "needs 17"},
                      {"data.train=" + output});
}

TEST_F(CliBadData, InvalidTokenOnOneRankEndsAllRanks) {
  // One token of the dataset is damaged. One of the two data ranks reads it in some step.
  std::string tokens = read_text(bin());
  tokens[2 * 1100] = '\xff';
  tokens[2 * 1100 + 1] = '\xff';
  write_text(bin(), tokens);
  const Outcome outcome = run_train(2, "run", {"train.steps=100", "checkpoint.interval=1"});
  expect_refused(
      outcome, {" of 2: " + bin().string() + ": the token at position 1100 (byte 2200) is 65535"});
  expect_success(run(tessera(kAlone, {"verify", path("run").string()})));
}

TEST_F(CliBadData, RejectsDifferentTokenizer) {
  const IndexedDataset tokens(dataset());
  DatasetMetadata metadata;
  metadata.tokenizer = {"wordpiece", 200, "xxh3-64:0123456789abcdef"};
  metadata.documents = tokens.num_documents();
  metadata.sequences = tokens.num_sequences();
  metadata.tokens = tokens.num_tokens();
  write_text(metadata_path(dataset()), metadata_text(metadata));
  expect_data_refused(
      {dataset() + ".tokenizer.json is byte with 257 tokens", "it belongs to another dataset"});
  fs::remove(dataset() + ".tokenizer.json");
  expect_data_refused({".tokenizer.json does not exist", "set data.tokenizer"});
  const std::vector<std::string> bytes = {"data.tokenizer=byte"};
  expect_data_refused(
      {metadata_path(dataset()) +
           " says that its tokens were made by wordpiece "
           "with 200 tokens (xxh3-64:0123456789abcdef), but data.tokenizer, byte, is byte",
       "set data.tokenizer to the one that made them, or prepare the text again"},
      bytes);
  write_text(metadata_path(dataset()), "{");
  expect_data_refused({metadata_path(dataset())}, bytes);
}

TEST_F(CliBadData, RejectsTokensOutsideVocabulary) {
  write_text(bin(), std::string(fs::file_size(bin()), '\x7f'));
  expect_data_refused({bin().string(), "is 32639, but the vocabulary has 257 tokens",
                       "in document 0, counted from 0", "is model.vocab_size too small"});
}

}  // namespace
}  // namespace tessera::test
