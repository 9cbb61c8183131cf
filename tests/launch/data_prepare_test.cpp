#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <thread>

#include "data_test_files.h"
#include "launch/commands/prepare.h"
#include "launch/data/indexed_dataset.h"
#include "launch/data/prepare.h"
#include "launch/data/tokenizer.h"

namespace tessera {
namespace {

using Names = std::vector<std::string>;

std::vector<int32_t> document(const IndexedDataset& dataset, int64_t index) {
  std::vector<int32_t> tokens(static_cast<size_t>(dataset.sequence_length(index)));
  dataset.read(index, 0, tokens);
  return tokens;
}

TEST(Prepare, EachFileBecomesADocument) {
  const TestFolder folder;
  const std::string large(3 * (1 << 20) + 17, '\xe9');  // several pieces
  write_file(folder / "a", "ab");
  write_file(folder / "empty", "");
  write_file(folder / "large", large);
  const PrepareReport report = prepare(
      {.inputs = {folder / "a", folder / "empty", folder / "large"}, .output = folder / "x/y/set"});
  EXPECT_EQ(report.documents, 3);
  EXPECT_EQ(report.bytes, static_cast<int64_t>(2 + large.size()));
  EXPECT_EQ(report.tokens, report.bytes + 3);
  EXPECT_EQ(report.token_type, TokenType::u16);
  const IndexedDataset dataset(folder / "x/y/set", 257);
  EXPECT_EQ(dataset.num_documents(), 3);
  EXPECT_EQ(document(dataset, 0), (std::vector<int32_t>{'a', 'b', 256}));
  EXPECT_EQ(document(dataset, 1), (std::vector<int32_t>{256}));
  EXPECT_EQ(ByteTokenizer().decode(document(dataset, 2)), large);
}

TEST(Prepare, ReadsPipes) {
  const TestFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::thread writer([&] { write_file(folder / "pipe", "from a pipe"); });
  EXPECT_EQ(prepare({.inputs = {folder / "pipe"}, .output = folder / "set"}).bytes, 11);
  writer.join();
}

TEST(Prepare, NamesAllInputsThatCanNotBeRead) {
  const TestFolder folder;
  write_file(folder / "good", "text");
  std::filesystem::create_directory(folder / "dir");
  const std::string message = message_of([&] {
    prepare({.inputs = {folder / "no1", folder / "good", folder / "no2", folder / "dir"},
             .output = folder / "new/set"});
  });
  EXPECT_TRUE(names_all(message, {"3 of 4", folder / "no1: No such file", folder / "no2: No such",
                                  folder / "dir: is a directory"}));
  EXPECT_EQ(message.find("good"), std::string::npos);
  EXPECT_EQ(folder.names(), (Names{"dir", "good"}));
  EXPECT_TRUE(names_all(message_of([&] { prepare({.output = folder / "set"}); }), {"no input"}));
}

TEST(Prepare, NamesAnOutputThatCanNotBeWritten) {
  const TestFolder folder;
  write_file(folder / "text", "text");
  EXPECT_TRUE(names_all(
      message_of([&] { prepare({.inputs = {folder / "text"}, .output = folder / "text/set"}); }),
      {"folder " + (folder / "text"), "can not be created"}));
  prepare({.inputs = {folder / "text"}, .output = folder / "set"});
  EXPECT_TRUE(names_all(
      message_of([&] { prepare({.inputs = {folder / "text"}, .output = folder / "set"}); }),
      {"set.bin", "exists"}));
  EXPECT_TRUE(names_all(
      message_of([&] {
        prepare({.tokenizer = "words", .inputs = {folder / "text"}, .output = folder / "other"});
      }),
      {"words", "byte"}));
}

TEST(Prepare, NeverOverwritesItsInput) {
  const TestFolder folder;
  write_file(folder / "set.bin", "precious");
  write_file(folder / "new.idx.tmp", "precious");
  EXPECT_TRUE(names_all(
      message_of([&] {
        prepare({.inputs = {folder / "set.bin"}, .output = folder / "./set", .overwrite = true});
      }),
      {folder / "set.bin", "choose another output"}));
  EXPECT_THROW(prepare({.inputs = {folder / "new.idx.tmp"}, .output = folder / "new"}), Error);
  EXPECT_EQ(read_file(folder / "set.bin"), "precious");
  EXPECT_EQ(read_file(folder / "new.idx.tmp"), "precious");
}

TEST(PrepareCommand, RunsFromTheCommandLineAndPrintsWhatItWrote) {
  const TestFolder folder;
  write_file(folder / "a", "abc");
  write_file(folder / "b", "de");
  CLI::App app;
  add_prepare_command(app);
  ::testing::internal::CaptureStdout();
  app.parse("prepare --tokenizer byte --input " + (folder / "a") + " " + (folder / "b") +
            " --output " + (folder / "set"));
  const std::string output = ::testing::internal::GetCapturedStdout();
  EXPECT_TRUE(names_all(
      output, {folder / "set.bin", "2 documents", "7 tokens (uint16)", "5 bytes", "MB/s"}));
  EXPECT_EQ(IndexedDataset(folder / "set").num_tokens(), 7);
}

TEST(PrepareCommand, AsksForInputAndOutput) {
  for (const char* line : {"prepare --input a", "prepare --output b", "prepare --input --output b",
                           "prepare --input a --output b --shuffle"}) {
    CLI::App app;
    add_prepare_command(app);
    EXPECT_THROW(app.parse(line), CLI::ParseError) << line;
  }
}

}  // namespace
}  // namespace tessera
