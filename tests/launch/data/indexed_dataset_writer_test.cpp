#include "launch/data/indexed/indexed_dataset_writer.h"

#include "launch/data/indexed/indexed_dataset.h"
#include "tests/launch/data/test_files.h"
#include "tests/support/file_size_limit.h"

namespace tessera {
namespace {

using Names = std::vector<std::string>;

TEST(TokenType, MatchesMegatronChoice) {
  EXPECT_EQ(token_type_for(257), TokenType::u16);
  EXPECT_EQ(token_type_for(65499), TokenType::u16);
  EXPECT_EQ(token_type_for(65500), TokenType::i32);
}

TEST(IndexedDatasetWriter, MatchesMegatronFormat) {
  const TestFolder folder;
  write_dataset(folder / "set", {{1, 2, 258}, {7}});
  EXPECT_EQ(read_file(folder / "set.bin"), std::string("\1\0\2\0\2\1\7\0", 8));
  const std::string golden(
      "MMIDIDX\0\0"
      "\1\0\0\0\0\0\0\0"  // version
      "\x08"              // uint16
      "\2\0\0\0\0\0\0\0"  // sequences
      "\3\0\0\0\0\0\0\0"  // document entries
      "\3\0\0\0\1\0\0\0"  // lengths
      "\0\0\0\0\0\0\0\0\6\0\0\0\0\0\0\0"
      "\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0",
      34 + 2 * 4 + 2 * 8 + 3 * 8);
  EXPECT_EQ(read_file(folder / "set.idx"), golden);
  EXPECT_EQ(folder.names(), (Names{"set.bin", "set.idx"}));
}

class RoundTrip : public ::testing::TestWithParam<TokenType> {};

TEST_P(RoundTrip, PreservesTokens) {
  const TestFolder folder;
  const TokenType type = GetParam();
  const int32_t largest = dispatch_token_type(type, []<typename T>() -> int32_t {
    return sizeof(T) < 4 ? static_cast<int32_t>(std::numeric_limits<T>::max())
                         : std::numeric_limits<int32_t>::max();
  });
  std::vector<int32_t> document(100000);  // several pieces of the writer
  for (size_t i = 0; i < document.size(); ++i) {
    document[i] = static_cast<int32_t>(i * 2654435761u % (static_cast<uint32_t>(largest) + 1));
  }
  document.back() = largest;
  write_dataset(folder / "set", {{0, largest}, document}, type);
  const IndexedDataset dataset(folder / "set");
  EXPECT_EQ(dataset.token_type(), type);
  EXPECT_EQ(dataset.num_documents(), 2);
  std::vector<int32_t> tokens(document.size());
  dataset.read(1, 0, tokens);
  EXPECT_EQ(tokens, document);
  dataset.read_tokens(2, tokens);
  EXPECT_EQ(tokens, document);
}

INSTANTIATE_TEST_SUITE_P(AllTypes, RoundTrip,
                         ::testing::Values(TokenType::u8, TokenType::i8, TokenType::i16,
                                           TokenType::u16, TokenType::i32, TokenType::i64),
                         [](const auto& type) { return std::string(to_string(type.param)); });

TEST(IndexedDatasetWriter, SplitsLongSequences) {
  const TestFolder folder;
  IndexedDatasetWriter writer(folder / "set", {.type = TokenType::u8, .max_sequence_length = 4});
  writer.append(std::vector<int32_t>{0, 1, 2});
  writer.append(std::vector<int32_t>{3, 4, 5, 6, 7, 8});
  writer.end_document();
  writer.append(std::vector<int32_t>{9, 10, 11, 12});
  writer.end_document();
  writer.end_document();
  writer.finish();
  const IndexedDataset dataset(folder / "set");
  EXPECT_EQ(dataset.num_sequences(), 4);
  EXPECT_EQ(dataset.document_sequences(0), (Range{0, 3}));
  EXPECT_EQ(dataset.document_sequences(1), (Range{3, 4}));
  EXPECT_EQ(dataset.document_sequences(2), (Range{4, 4}));
  EXPECT_EQ(dataset.sequence_length(2), 1);
  std::vector<int32_t> tokens(13);
  dataset.read_tokens(0, tokens);
  for (int32_t i = 0; i < 13; ++i) EXPECT_EQ(tokens[static_cast<size_t>(i)], i);
}

TEST(IndexedDatasetWriter, DiscardsDocuments) {
  const TestFolder folder;
  // The second document is larger than what the writer keeps in memory.
  const std::vector<int32_t> large(1 << 20, 7);
  for (const bool ordered : {false, true}) {
    IndexedDatasetWriter writer(folder / "set",
                                {.overwrite = true,
                                 .max_sequence_length = 1000,
                                 .order = ordered ? [](int64_t, int64_t place) { return place; }
                                                  : std::function<int64_t(int64_t, int64_t)>()});
    for (const auto& [tokens, kept] : {std::pair(std::vector<int32_t>{1, 2}, false),
                                       {std::vector<int32_t>{3}, true},
                                       {large, false},
                                       {std::vector<int32_t>{4, 5}, true},
                                       {large, false}}) {
      writer.append(tokens);
      if (kept) {
        writer.end_document();
      } else {
        writer.discard_document();
      }
    }
    EXPECT_EQ(writer.num_tokens(), 3);
    writer.finish();
    write_dataset(folder / "expected", {{3}, {4, 5}}, TokenType::i32);
    EXPECT_EQ(read_file(folder / "set.bin"), read_file(folder / "expected.bin"));
    EXPECT_EQ(read_file(folder / "set.idx"), read_file(folder / "expected.idx"));
  }
}

TEST(IndexedDatasetWriter, StoresDocumentsInGivenOrder) {
  const TestFolder folder;
  const std::vector<int32_t> large(1 << 20, 7);
  const std::vector<std::vector<int32_t>> documents = {{1, 2}, large, {}, {3}};
  const std::vector<size_t> order = {1, 3, 2, 0};
  {
    IndexedDatasetWriter writer(
        folder / "set", {.type = TokenType::u16, .order = [&](int64_t count, int64_t place) {
                           EXPECT_EQ(count, 4);
                           return static_cast<int64_t>(order[static_cast<size_t>(place)]);
                         }});
    for (const auto& document : documents) {
      writer.append(document);
      if (document.size() == 2) writer.end_sequence();  // a document of several sequences
      if (document.size() == 2) writer.append(document);
      writer.end_document();
    }
    EXPECT_EQ(folder.names().size(), 5u);  // four files and that of the order of the input
    writer.finish();
  }
  EXPECT_EQ(folder.names(), (Names{"set.bin", "set.idx"}));
  const IndexedDataset dataset(folder / "set");
  EXPECT_EQ(dataset.document_tokens(0), (Range{0, std::ssize(large)}));
  EXPECT_EQ(dataset.document_tokens(2).size(), 0);
  EXPECT_EQ(dataset.document_sequences(3), (Range{2, 4}));
  std::vector<int32_t> end(5);
  dataset.read_tokens(std::ssize(large), end);
  EXPECT_EQ(end, (std::vector<int32_t>{3, 1, 2, 1, 2}));
}

TEST(IndexedDatasetWriter, KeepsExistingDatasetWithoutOverwrite) {
  const TestFolder folder;
  write_dataset(folder / "set", {{1, 2}});
  const std::string before = read_file(folder / "set.bin");
  EXPECT_TRUE(names_all(error_of([&] { IndexedDatasetWriter writer(folder / "set", {}); }),
                        {folder / "set.bin", "exists", "--overwrite"}));
  EXPECT_EQ(read_file(folder / "set.bin"), before);
  {
    // An unfinished writer that may overwrite leaves the old dataset untouched.
    IndexedDatasetWriter writer(folder / "set", {.overwrite = true});
    writer.append(std::vector<int32_t>{5});
  }
  EXPECT_EQ(IndexedDataset(folder / "set").num_tokens(), 2);
  write_dataset(folder / "set", {{1, 2, 3}});
  EXPECT_EQ(IndexedDataset(folder / "set").num_tokens(), 3);
  EXPECT_EQ(folder.names(), (Names{"set.bin", "set.idx"}));
}

TEST(IndexedDatasetWriter, ReplacesMetadataWithDataset) {
  const TestFolder folder;
  const auto write = [&](std::string_view metadata) {
    IndexedDatasetWriter writer(folder / "set", {.overwrite = true});
    writer.append(std::vector<int32_t>{5});
    writer.end_document();
    writer.finish(metadata);
  };
  write("facts");
  EXPECT_EQ(read_file(folder / "set.meta.json"), "facts");
  EXPECT_EQ(folder.names(), (Names{"set.bin", "set.idx", "set.meta.json"}));
  write("");  // old metadata must not survive
  EXPECT_EQ(folder.names(), (Names{"set.bin", "set.idx"}));
  write_file(folder / "other.meta.json", "facts");
  EXPECT_TRUE(names_all(error_of([&] { IndexedDatasetWriter writer(folder / "other", {}); }),
                        {folder / "other.meta.json", "exists", "--overwrite"}));
}

TEST(IndexedDatasetWriter, LeavesNothingBehindOnFailure) {
  const TestFolder folder;
  {
    IndexedDatasetWriter writer(folder / "set", {.type = TokenType::u8});
    writer.append(std::vector<int32_t>{1, 2});
    EXPECT_TRUE(names_all(error_of([&] {
                            writer.append(std::vector<int32_t>{3, 256});
                          }),
                          {folder / "set.bin", "256", "position 3", "uint8", "0 to 255"}));
  }
  {
    IndexedDatasetWriter writer(folder / "set", {.type = TokenType::i32});
    EXPECT_THROW(writer.append(std::vector<int32_t>{-1}), Error);
  }
  {
    IndexedDatasetWriter writer(folder / "set", {});
    writer.append(std::vector<int32_t>{1});
    EXPECT_TRUE(names_all(error_of([&] { writer.finish(); }), {"not ended"}));
  }
  EXPECT_EQ(folder.names(), Names{});
}

TEST(IndexedDatasetWriter, RejectsConcurrentWriter) {
  const TestFolder folder;
  IndexedDatasetWriter writer(folder / "set", {.overwrite = true});
  writer.append(std::vector<int32_t>{1, 2, 3});
  writer.end_document();
  EXPECT_TRUE(names_all(error_of([&] { write_dataset(folder / "set", {{7}}); }),
                        {folder / "set.bin: another process is writing it"}));
  writer.finish();
  EXPECT_EQ(IndexedDataset(folder / "set").num_tokens(), 3);
}

TEST(IndexedDatasetWriter, ReplacesFilesLeftByCrash) {
  const TestFolder folder;
  for (const char* name : {"set.bin.tmp", "set.idx.tmp", "set.meta.json.tmp"}) {
    write_file(folder / name, std::string(1000, 'x'));
  }
  write_dataset(folder / "set", {{7}});
  EXPECT_EQ(IndexedDataset(folder / "set").num_tokens(), 1);
  EXPECT_EQ(folder.names(), (Names{"set.bin", "set.idx"}));
}

TEST(IndexedDatasetWriter, KeepsDatasetCreatedMeanwhile) {
  const TestFolder folder;
  IndexedDatasetWriter writer(folder / "set", {});
  write_dataset(folder / "other", {{7}});
  for (const char* end : {".bin", ".idx"}) {
    std::filesystem::rename(folder / "other" + end, folder / "set" + end);
  }
  EXPECT_TRUE(names_all(error_of([&] { writer.finish(); }), {folder / "set.bin", "exists"}));
  EXPECT_EQ(IndexedDataset(folder / "set").num_tokens(), 1);
}

// The index cannot be renamed because its staged file was removed.
TEST(IndexedDatasetWriter, RemovesPublishedFilesWhenFinishFails) {
  const TestFolder folder;
  IndexedDatasetWriter writer(folder / "set", {});
  std::filesystem::remove(folder / "set.idx.tmp");
  EXPECT_TRUE(
      names_all(error_of([&] { writer.finish("facts", "words"); }), {"set.idx.tmp", "renamed"}));
  EXPECT_EQ(folder.names(), Names{});
}

TEST(IndexedDatasetWriter, LeavesNothingWhenDiskIsFull) {
  const TestFolder folder;
  std::string message;
  {
    const test::FileSizeLimit limit(100000);
    message = error_of([&] { write_dataset(folder / "set", {std::vector<int32_t>(1000000, 7)}); });
  }
  EXPECT_TRUE(names_all(message, {folder / "set.bin.tmp", "cannot be written"}));
  EXPECT_EQ(folder.names(), Names{});
}

TEST(IndexedDatasetWriter, NamesUnwritablePath) {
  const TestFolder folder;
  EXPECT_TRUE(names_all(error_of([&] { IndexedDatasetWriter writer(folder / "no/set", {}); }),
                        {folder / "no/set.bin.tmp", "No such file"}));
  EXPECT_THROW(IndexedDatasetWriter(folder / "", {}), Error);
  std::filesystem::create_directory(folder / "set.idx");
  EXPECT_TRUE(
      names_all(error_of([&] { IndexedDatasetWriter writer(folder / "set", {.overwrite = true}); }),
                {folder / "set.idx", "not a regular file"}));
}

}  // namespace
}  // namespace tessera
