#include <sys/stat.h>

#include <array>
#include <fstream>
#include <random>

#include "core/version.h"
#include "launch/data/indexed/dataset_metadata.h"
#include "launch/data/indexed/indexed_dataset.h"
#include "launch/data/prepare/prepare.h"
#include "launch/support/input/parquet_texts.h"
#include "tests/launch/data/test_files.h"
#include "tests/support/compressed.h"
#include "tests/support/file_size_limit.h"

namespace tessera {
namespace {

using test::gzipped;
using test::zstd_compressed;
using Names = std::vector<std::string>;

/// Several pieces of words and lines, some blank, with multi-byte letters and a word that is longer
/// than a piece.
std::string some_text() {
  std::mt19937 random(3);
  const char* const words[] = {"fox ", "jumps", "\xE7\x8B\x90", ". ", "\n", "\n\n", "\xC3\x89"};
  std::string text;
  const auto add_words = [&](size_t bytes) {
    const size_t end = text.size() + bytes;
    while (text.size() < end) text += words[random() % std::size(words)];
  };
  add_words(size_t{1} << 19);
  text.append(size_t{5} << 18, 'x');
  add_words(size_t{1} << 19);
  return text;
}

/// Writes a text as JSON lines, with blank lines between them.
std::string json_lines(const std::string& text) {
  std::mt19937 random(4);
  std::string lines;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = std::min(text.size(), begin + random() % 400);
    while (end < text.size() && (text[end] & '\xC0') == '\x80') ++end;
    lines += Json{{"id", begin}, {"text", text.substr(begin, end - begin)}}.dump() + "\n";
    if (random() % 10 == 0) lines += "\n";
    begin = end;
  }
  return lines + Json{{"text", text}}.dump();
}

class PrepareInputs : public ::testing::Test {
 protected:
  PrepareInputs() {
    std::string vocabulary = "[UNK]\n\xE7\x8B\x90\n.\n";
    for (char c = 'a'; c <= 'z'; ++c) vocabulary += fmt::format("{0}\n##{0}\n", c);
    write_file(folder / "vocab.txt", vocabulary);
  }

  /// The contents of the three output files for these options.
  std::array<std::string, 3> prepare_files(PrepareOptions options) const {
    options.output = folder / "set";
    options.overwrite = true;
    prepare(options);
    return {read_file(folder / "set.bin"), read_file(folder / "set.idx"),
            read_file(folder / "set.meta.json")};
  }

  std::string prepare_error(PrepareOptions options) const {
    options.output = folder / "refused";
    const Names before = folder.names();
    const std::string message = error_of([&] { prepare(options); });
    EXPECT_EQ(folder.names(), before) << "files were left behind";
    return message;
  }

  const TestFolder folder;
  const std::string wordpiece = "wordpiece:" + (folder / "vocab.txt");
};

TEST_F(PrepareInputs, OutputIsIndependentOfThreads) {
  const std::string text = some_text();
  write_file(folder / "a.txt", text);
  write_file(folder / "b.jsonl.gz", gzipped(json_lines(text)));
  for (const std::string& tokenizer : {std::string("byte"), wordpiece}) {
    for (const auto& [documents, sentences] : {std::pair{Documents::file, Sentences::none},
                                               std::pair{Documents::line, Sentences::line}}) {
      PrepareOptions options = {.tokenizer = tokenizer,
                                .input = {.inputs = {folder / "a.txt", folder / "[bc].*"}},
                                .documents = documents,
                                .sentences = sentences};
      const auto alone = prepare_files(options);
      EXPECT_GT(alone[0].size(), text.size() / 4);
      for (const int threads : {2, 5}) {
        options.threads = threads;
        EXPECT_TRUE(prepare_files(options) == alone) << tokenizer << " on " << threads;
      }
    }
  }
}

TEST_F(PrepareInputs, CompressedFilesMatchPlainFiles) {
  const std::string text = some_text();
  const std::string json = json_lines(text);
  write_file(folder / "plain.txt", text);
  write_file(folder / "text.gz", gzipped(text));
  write_file(folder / "text.zst", zstd_compressed(text));
  write_file(folder / "plain.json", json);
  write_file(folder / "json.jsonl.gz", gzipped(json.substr(0, 1000)) + gzipped(json.substr(1000)));
  write_file(folder / "json.json.zst", zstd_compressed(json));
  const auto of = [&](const char* name) {
    return prepare_files(
        {.tokenizer = wordpiece, .input = {.inputs = {folder / name}}, .threads = 2});
  };
  EXPECT_TRUE(of("text.gz") == of("plain.txt"));
  EXPECT_TRUE(of("text.zst") == of("plain.txt"));
  EXPECT_TRUE(of("json.jsonl.gz") == of("plain.json"));
  EXPECT_TRUE(of("json.json.zst") == of("plain.json"));
}

TEST_F(PrepareInputs, JsonDocumentMatchesPlainFile) {
  const std::string text = some_text();
  write_file(folder / "a.txt", text);
  write_file(folder / "a.json", Json{{"body", text}}.dump());
  const auto plain =
      prepare_files({.tokenizer = wordpiece, .input = {.inputs = {folder / "a.txt"}}});
  EXPECT_TRUE(prepare_files({.tokenizer = wordpiece,
                             .input = {.inputs = {folder / "a.json"}, .field = "body"}}) == plain);
}

TEST_F(PrepareInputs, WritesMetadata) {
  write_file(folder / "a.jsonl", "{\"text\": \"fox \xF0\x9F\xA6\x8A\"}\n{\"text\": \"\"}\n");
  prepare_files({.tokenizer = wordpiece, .input = {.inputs = {folder / "a.jsonl"}}});
  const auto tokenizer = make_tokenizer(wordpiece);
  auto metadata = read_metadata(IndexedDataset(folder / "set"));
  ASSERT_TRUE(metadata.has_value());
  EXPECT_EQ(metadata->tessera_version, kVersion);
  EXPECT_EQ(metadata->tokenizer, identity_of(*tokenizer));
  EXPECT_EQ(metadata->documents, 1);
  EXPECT_EQ(metadata->sequences, 1);
  EXPECT_EQ(metadata->tokens, 4);
  EXPECT_EQ(metadata->bytes, 8);
  EXPECT_EQ(metadata->unknown, 1);
  EXPECT_FALSE(metadata->end_of_document);
  prepare_files({.input = {.inputs = {folder / "a.jsonl"}}, .append_end = true});
  metadata = read_metadata(IndexedDataset(folder / "set"));
  EXPECT_EQ(metadata->tokenizer.kind, "byte");
  EXPECT_EQ(metadata->tokens, 9);
  EXPECT_TRUE(metadata->end_of_document);
}

TEST_F(PrepareInputs, AppendsEndOfDocumentOnlyOnRequest) {
  write_file(folder / "a", "ab\n\nc\n");
  EXPECT_EQ(prepare_files({.input = {.inputs = {folder / "a"}}, .documents = Documents::line})[0],
            std::string("a\0b\0c\0", 6));
  EXPECT_EQ(prepare_files({.input = {.inputs = {folder / "a"}},
                           .documents = Documents::line,
                           .append_end = true})[0],
            std::string("a\0b\0\0\1c\0\0\1", 10));
  EXPECT_TRUE(names_all(
      prepare_error(
          {.tokenizer = wordpiece, .input = {.inputs = {folder / "a"}}, .append_end = true}),
      {"--append-eod", wordpiece, "no end-of-document token"}));
}

TEST_F(PrepareInputs, RejectsOptionsThatDoNotFitInputs) {
  write_file(folder / "a.txt", "text");
  write_file(folder / "a.jsonl", "{\"text\": \"a\"}");
  EXPECT_TRUE(names_all(prepare_error({.input = {.inputs = {folder / "a.txt"}, .field = "text"}}),
                        {"--field is for JSON lines", "--format jsonl"}));
  EXPECT_TRUE(
      names_all(prepare_error({.input = {.inputs = {folder / "a.txt"}, .skip_malformed = true}}),
                {"--skip-malformed is for JSON lines"}));
  EXPECT_TRUE(names_all(
      prepare_error({.input = {.inputs = {folder / "a.txt", folder / "a.jsonl"}},
                     .documents = Documents::paragraph}),
      {"cannot be paragraphs in " + (folder / "a.jsonl"), "each line of JSON is a document"}));
  write_file(folder / "a.parquet", "no table");
  EXPECT_TRUE(names_all(prepare_error({.input = {.inputs = {folder / "a.parquet"}}}),
                        {folder / "a.parquet", reads_parquet() ? "cannot be read as Parquet"
                                                               : "cmake -DTESSERA_PARQUET=ON"}));
  // The name says jsonl and the option says text, and vice versa.
  EXPECT_EQ(
      prepare_files({.input = {.inputs = {folder / "a.jsonl"}, .formats = InputFormats::text}})[0]
          .size(),
      26u);
  EXPECT_TRUE(names_all(
      prepare_error({.input = {.inputs = {folder / "a.txt"}, .formats = InputFormats::jsonl}}),
      {(folder / "a.txt") + ":1: the line is not valid JSON"}));
}

TEST_F(PrepareInputs, ErrorDoesNotWaitForPipeWriter) {
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  write_file(folder / "a.jsonl", "{}\n");
  EXPECT_TRUE(names_all(prepare_error({.input = {.inputs = {folder / "a.jsonl", folder / "pipe"},
                                                 .formats = InputFormats::jsonl},
                                       .threads = 2}),
                        {folder / "a.jsonl:1: "}));
}

class PrepareFailures : public PrepareInputs, public ::testing::WithParamInterface<int> {};

TEST_P(PrepareFailures, NamesFirstMalformedLine) {
  const std::string good = "{\"text\": \"" + std::string(100, 'x') + "\"}\n";
  std::string lines;
  for (int i = 1; i <= 40000; ++i) lines += i % 15000 == 0 ? "{\"txt\": 1}\n" : good;
  write_file(folder / "a.jsonl", good);
  write_file(folder / "b.jsonl", lines);
  PrepareOptions options = {.input = {.inputs = {folder / "*.jsonl"}}, .threads = GetParam()};
  EXPECT_TRUE(names_all(prepare_error(options), {folder / "b.jsonl:15000: the line has no field",
                                                 "\"txt\"", "--skip-malformed"}));
  options.input.skip_malformed = true;
  options.output = folder / "set";
  const PrepareReport report = prepare(options);
  EXPECT_EQ(report.documents, 40001 - 2);
  EXPECT_EQ(report.malformed_lines, 2);
  EXPECT_TRUE(names_all(report.first_malformed, {folder / "b.jsonl:15000: "}));
}

TEST_P(PrepareFailures, TruncatedFileLeavesNothing) {
  const std::string bytes = gzipped(some_text());
  write_file(folder / "a.gz", bytes.substr(0, bytes.size() - 100));
  EXPECT_TRUE(
      names_all(prepare_error({.input = {.inputs = {folder / "a.gz"}}, .threads = GetParam()}),
                {folder / "a.gz: ends after byte", "incomplete"}));
}

TEST_P(PrepareFailures, ReportsMalformedLineBeforeLaterTruncation) {
  const std::string bytes = gzipped("{}\n" + json_lines(some_text().substr(0, 100000)));
  write_file(folder / "a.jsonl.gz", bytes.substr(0, bytes.size() - 10));
  EXPECT_TRUE(names_all(
      prepare_error({.input = {.inputs = {folder / "a.jsonl.gz"}}, .threads = GetParam()}),
      {folder / "a.jsonl.gz:1: the line has no field"}));
}

TEST_P(PrepareFailures, FullDiskLeavesNothing) {
  write_file(folder / "a", some_text());
  std::string message;
  {
    const test::FileSizeLimit limit(100000);
    message = prepare_error({.input = {.inputs = {folder / "a"}}, .threads = GetParam()});
  }
  EXPECT_TRUE(names_all(message, {"refused.bin.tmp: cannot be written"}));
}

// For example, one thread fails while another waits for a pipe without data.
TEST_P(PrepareFailures, ErrorDoesNotWaitForSilentPipe) {
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::fstream silent(folder / "pipe");
  silent << "{}\n" + std::string(1 << 15, '\n') << std::flush;
  write_file(folder / "a.jsonl", "{}\n");
  EXPECT_TRUE(names_all(prepare_error({.input = {.inputs = {folder / "a.jsonl", folder / "pipe"},
                                                 .formats = InputFormats::jsonl},
                                       .threads = GetParam()}),
                        {folder / "a.jsonl:1: "}));
}

TEST_P(PrepareFailures, RejectsDecompressionBomb) {
  const std::string line = "{\"text\": \"" + std::string(size_t{1} << 20, 'x');
  std::string bomb;
  for (int i = 0; i < 70; ++i) bomb += i == 0 ? line : std::string(size_t{1} << 20, 'x');
  write_file(folder / "a.jsonl.gz", gzipped(bomb));
  EXPECT_TRUE(names_all(
      prepare_error({.input = {.inputs = {folder / "a.jsonl.gz"}}, .threads = GetParam()}),
      {folder / "a.jsonl.gz:1: the line has more than 67108864 bytes"}));
}

INSTANTIATE_TEST_SUITE_P(Threads, PrepareFailures, ::testing::Values(1, 3),
                         ::testing::PrintToStringParamName());

TEST_F(PrepareInputs, ReportsProgress) {
  write_file(folder / "a.gz", gzipped(some_text()));
  int64_t read = 0, tokens = 0, documents = 0;
  prepare_files({.input = {.inputs = {folder / "a.gz", folder / "a.gz"}},
                 .on_progress = [&](const PrepareProgress& progress) {
                   EXPECT_EQ(progress.total, 2 * std::filesystem::file_size(folder / "a.gz"));
                   EXPECT_GE(progress.read, read);
                   EXPECT_GE(progress.tokens, tokens);
                   EXPECT_GE(progress.documents, documents);
                   read = progress.read;
                   tokens = progress.tokens;
                   documents = progress.documents;
                 }});
  EXPECT_EQ(read, static_cast<int64_t>(2 * std::filesystem::file_size(folder / "a.gz")));
  EXPECT_EQ(tokens, static_cast<int64_t>(2 * some_text().size()));
  EXPECT_EQ(documents, 2);
}

}  // namespace
}  // namespace tessera
