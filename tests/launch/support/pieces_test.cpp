#include <fcntl.h>
#include <sys/stat.h>

#include <chrono>
#include <random>
#include <thread>

#include "launch/support/files/file_pieces.h"
#include "launch/tokenizers/training/count_words.h"
#include "tests/launch/data/test_files.h"
#include "tests/support/compressed.h"

namespace tessera {
namespace {

using test::gzipped;
using test::zstd_compressed;
using Names = std::vector<std::string>;

std::string read_all(const std::string& path) {
  std::string text;
  for_each_piece(path, [&](std::string_view piece) {
    EXPECT_LE(piece.size(), kPieceBytes);
    text += piece;
  });
  return text;
}

/// Several pieces of letters, some of them frequent.
std::string some_text() {
  std::mt19937 random(1);
  std::string text(size_t{5} << 19, ' ');
  for (char& c : text) c = static_cast<char>('a' + random() % 5);
  return text;
}

class Compressed : public ::testing::TestWithParam<std::string (*)(std::string_view)> {
 protected:
  static std::string compressed(std::string_view bytes) { return GetParam()(bytes); }
  /// The error on reading a file with these bytes.
  std::string read_error(const std::string& bytes) const {
    write_file(path, bytes);
    return error_of([&] { read_all(path); });
  }

  const TestFolder folder;
  const std::string path = folder / "file";
};

TEST_P(Compressed, ReadsOriginalText) {
  const std::string text = some_text();
  write_file(path, compressed(text));
  EXPECT_EQ(read_all(path), text);
  write_file(path, compressed(""));
  EXPECT_EQ(read_all(path), "");
}

TEST_P(Compressed, ReadsConcatenatedParts) {
  const std::string text = some_text();
  write_file(path, compressed("one ") + compressed("") + compressed(text) + compressed("three"));
  EXPECT_EQ(read_all(path), "one " + text + "three");
}

TEST_P(Compressed, RejectsTruncation) {
  const std::string bytes = compressed(some_text().substr(0, 5000));
  for (const size_t size : {size_t{5}, size_t{20}, bytes.size() / 2, bytes.size() - 1}) {
    EXPECT_TRUE(names_all(read_error(bytes.substr(0, size)),
                          {path, fmt::format("ends after byte {} ", size), "incomplete"}));
  }
  EXPECT_TRUE(names_all(read_error(bytes + bytes.substr(0, 12)), {path, "incomplete"}));
}

TEST_P(Compressed, ReportsDamageWithPosition) {
  std::string bytes = compressed(some_text().substr(0, 5000));
  bytes.back() = static_cast<char>(bytes.back() ^ 1);  // part of a checksum or length
  EXPECT_TRUE(names_all(read_error(bytes), {path, "is damaged near byte "}));
  EXPECT_TRUE(names_all(read_error(compressed("text") + "more"), {path, "is damaged near"}));
}

// With any one byte changed, a file is read or refused with an error, or the byte does not matter.
TEST_P(Compressed, SurvivesChangedBytes) {
  const std::string bytes = compressed(some_text().substr(0, 300));
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 0x55);
    write_file(path, changed);
    try {
      EXPECT_LE(read_all(path).size(), size_t{1} << 24);
    } catch (const Error&) {
    }
  }
}

TEST_P(Compressed, ReadsFromPipe) {
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const std::string text = some_text();
  std::thread writer([&] {
    const std::string bytes = compressed(text);
    std::ofstream pipe(path, std::ios::binary);
    pipe << bytes.substr(0, 1) << std::flush << bytes.substr(1);
  });
  EXPECT_EQ(read_all(path), text);
  writer.join();
}

TEST_P(Compressed, CountsWords) {
  write_file(path, compressed("to be or not to be"));
  EXPECT_EQ(count_bert_words({path}, kUncased),
            (WordCounts{{"be", 2}, {"not", 1}, {"or", 1}, {"to", 2}}));
}

INSTANTIATE_TEST_SUITE_P(Formats, Compressed, ::testing::Values(gzipped, zstd_compressed),
                         [](const auto& instance) {
                           return std::string(instance.index == 0 ? "gzip" : "zstd");
                         });

TEST(FilePieces, AcceptsGzipPaddingAndZstdSkippableFrames) {
  const TestFolder folder;
  write_file(folder / "a", gzipped("text") + std::string(2000, '\0'));
  EXPECT_EQ(read_all(folder / "a"), "text");
  write_file(folder / "b", gzipped("text") + std::string(3, '\0') + gzipped("more"));
  EXPECT_TRUE(names_all(error_of([&] { read_all(folder / "b"); }), {"follow the compressed data"}));
  const std::string skipped("\x5A\x2A\x4D\x18\3\0\0\0abc", 11);
  write_file(folder / "c", skipped + zstd_compressed("text") + skipped);
  EXPECT_EQ(read_all(folder / "c"), "text");
}

TEST(FilePieces, ReadsUncompressedFilesUnchanged) {
  const TestFolder folder;
  for (const std::string text : {"", "a", "\x1F", "\x28\xB5\x2F", "PAMELA"}) {
    write_file(folder / "file.gz", text);
    EXPECT_EQ(read_all(folder / "file.gz"), text);
  }
}

TEST(FilePieces, RejectsOtherCompressions) {
  const TestFolder folder;
  for (const auto& [name, start] : {std::pair{"xz",
                                              "\xFD"
                                              "7zXZ"},
                                    {"zip", "PK\x03\x04"},
                                    {"lz4", "\x04\x22\x4D\x18"},
                                    {"bzip2", "BZh91AY&SY"}}) {
    write_file(folder / "file", std::string(start) + "...");
    EXPECT_TRUE(names_all(error_of([&] { read_all(folder / "file"); }),
                          {folder / "file", fmt::format("compressed with {},", name), "gzip"}));
  }
  write_file(folder / "file", "BZh");
  EXPECT_EQ(read_all(folder / "file"), "BZh");
}

TEST(FilePieces, RefusesOtherEncodingsAndLeavesOutTheByteOrderMark) {
  const TestFolder folder;
  const std::string mark = "\xEF\xBB\xBF";
  const auto read = [&](const std::string& text) {
    write_file(folder / "file", text);
    return read_all(folder / "file");
  };
  for (const auto& [start, name] :
       {std::pair{"\xFF\xFE", "UTF-16"}, {"\xFE\xFF", "UTF-16"}, {"PAR1\x05", "Parquet"}}) {
    for (const std::string& text : {std::string(start), gzipped(std::string(start) + "...")}) {
      EXPECT_TRUE(names_all(error_of([&] { read(text); }), {folder / "file", name}));
    }
  }
  for (const std::string text : {"\xFE", "PAR1", "PAR1 is a gene"}) EXPECT_EQ(read(text), text);
  for (const std::string& text : {mark + "a" + mark, gzipped(mark + "a" + mark)}) {
    EXPECT_EQ(read(text), "a" + mark);
  }
  EXPECT_EQ(read(mark), "");
}

TEST(PieceReader, ReportsPosition) {
  const TestFolder folder;
  const std::string bytes =
      gzipped(std::string(size_t{1} << 26, 'x'));  // almost a decompression bomb
  write_file(folder / "file", bytes);
  PieceReader reader(folder / "file");
  size_t size = 0;
  for (auto piece = reader.next(); !piece.empty(); piece = reader.next()) {
    EXPECT_LE(piece.size(), kPieceBytes);
    size += piece.size();
  }
  EXPECT_EQ(size, size_t{1} << 26);
  EXPECT_EQ(reader.position(), static_cast<int64_t>(bytes.size()));
}

TEST(PieceReader, StopsWaitingForPipe) {
  const TestFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  const FileDescriptor silent(::open((folder / "pipe").c_str(), O_RDWR));
  std::stop_source stop;
  PieceReader reader(folder / "pipe", stop.get_token());
  stop.request_stop();
  EXPECT_TRUE(names_all(error_of([&] { reader.next(); }), {folder / "pipe", "stopped"}));
}

TEST(PieceReader, WaitsForFirstPipeWriter) {
  const TestFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::stop_source stop;
  PieceReader reader(folder / "pipe", stop.get_token());
  std::jthread writer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(150));  // longer than one poll
    write_file(folder / "pipe", "text");
  });
  EXPECT_EQ(reader.next(), "text");
  EXPECT_EQ(reader.next(), "");
  ASSERT_EQ(::mkfifo((folder / "other").c_str(), 0600), 0);
  PieceReader alone(folder / "other", stop.get_token());
  stop.request_stop();
  EXPECT_TRUE(names_all(error_of([&] { alone.next(); }), {folder / "other", "stopped"}));
}

TEST(FindInputs, ExpandsPatternsInOrder) {
  const TestFolder folder;
  for (const char* name : {"b.txt", "a.txt", "c.md", "x[1].txt", "x1.txt"}) {
    write_file(folder / name, "text");
  }
  EXPECT_EQ(find_inputs({folder / "c.md", folder / "[ab].*", "-", folder / "?.txt"}, "who"),
            (Names{folder / "c.md", folder / "a.txt", folder / "b.txt", "-", folder / "a.txt",
                   folder / "b.txt"}));
  // A file with exactly this name takes precedence.
  EXPECT_EQ(find_inputs({folder / "x[1].txt"}, "who"), (Names{folder / "x[1].txt"}));
  std::filesystem::remove(folder / "x[1].txt");
  EXPECT_EQ(find_inputs({folder / "x[1].txt"}, "who"), (Names{folder / "x1.txt"}));
}

TEST(FindInputs, NamesAllInvalidInputs) {
  const TestFolder folder;
  std::filesystem::create_directory(folder / "dir");
  write_file(folder / "file", "text");
  EXPECT_TRUE(names_all(
      error_of([&] {
        find_inputs({folder / "*.txt", folder / "file", folder / "no", folder / "dir"}, "who");
      }),
      {"who: 3 of 4 inputs", folder / "*.txt: matches no file", folder / "no: No such file",
       folder / "dir: is a directory: name its files, as '" + (folder / "dir/*'")}));
  EXPECT_TRUE(names_all(error_of([&] { find_inputs({folder / "*"}, "who"); }),
                        {"who: 1 of 2 inputs", folder / "dir: is a directory"}));
  EXPECT_TRUE(names_all(error_of([&] { find_inputs({"-", "-"}, "who"); }), {"given twice"}));
  EXPECT_TRUE(names_all(error_of([&] { find_inputs({}, "who"); }), {"no input"}));
}

}  // namespace
}  // namespace tessera
