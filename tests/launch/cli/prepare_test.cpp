#include <CLI/CLI.hpp>

#include "launch/cli/commands.h"
#include "launch/data/indexed/indexed_dataset.h"
#include "tests/launch/data/test_files.h"

namespace tessera {
namespace {

TEST(PrepareCommand, PrintsSummary) {
  const TestFolder folder;
  write_file(folder / "a", "abc");
  write_file(folder / "b", "de");
  CLI::App app;
  add_prepare_command(app);
  ::testing::internal::CaptureStdout();
  app.parse("prepare --tokenizer byte --input " + (folder / "a") + " " + (folder / "b") +
            " --output " + (folder / "set"));
  const std::string output = ::testing::internal::GetCapturedStdout();
  EXPECT_TRUE(names_all(output, {folder / "set.bin", "2 documents, 2 sequences",
                                 "5 tokens (uint16)", "5 bytes", "MB/s"}));
  EXPECT_EQ(IndexedDataset(folder / "set").num_tokens(), 5);
}

TEST(PrepareCommand, ReportsSkippedInput) {
  const TestFolder folder;
  write_file(folder / "a.jsonl", "{\"body\": \"abc\"}\n{}\n{\"body\": \"\"}\n");
  CLI::App app;
  add_prepare_command(app);
  ::testing::internal::CaptureStdout();
  app.parse("prepare --input " + (folder / "*.jsonl") + " --field body --skip-malformed " +
            "--append-eod --threads 2 --output " + (folder / "set"));
  const std::string output = ::testing::internal::GetCapturedStdout();
  EXPECT_TRUE(names_all(output, {"1 documents", "4 tokens", "from 3 bytes",
                                 "documents  1; 1 without a token were left out\n",
                                 "1 malformed lines or rows were skipped; the first: " +
                                     (folder / "a.jsonl:2: the line has no field \"body\"")}));
}

TEST(PrepareCommand, RejectsInvalidOptions) {
  for (const char* line :
       {"prepare --input a", "prepare --output b", "prepare --input --output b",
        "prepare --input a --output b --shuffle", "prepare --input a --output b --documents page",
        "prepare --input a --output b --format json", "prepare --input a --output b --threads 0"}) {
    CLI::App app;
    add_prepare_command(app);
    EXPECT_THROW(app.parse(line), CLI::ParseError) << line;
  }
}

}  // namespace
}  // namespace tessera
