#include "launch/data/indexed/indexed_dataset.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <numeric>

#include "launch/data/datasets/gpt_dataset.h"
#include "tests/launch/data/test_files.h"

namespace tessera {
namespace {

/// The fields of an index, so that tests can corrupt any of them.
struct Index {
  std::string magic{"MMIDIDX\0\0", 9};
  uint64_t version = 1;
  uint8_t code = 8;
  uint64_t sequence_count = 3;
  uint64_t document_entries = 3;
  std::vector<int32_t> lengths = {2, 3, 1};
  std::vector<int64_t> pointers = {0, 4, 10};
  std::vector<int64_t> documents = {0, 2, 3};
  std::string tail = {};

  std::string bytes() const {
    std::string all = magic + bytes_of(version) + bytes_of(code) + bytes_of(sequence_count) +
                      bytes_of(document_entries);
    for (const int32_t length : lengths) all += bytes_of(length);
    for (const int64_t pointer : pointers) all += bytes_of(pointer);
    for (const int64_t document : documents) all += bytes_of(document);
    return all + tail;
  }
};

class IndexedDatasetTest : public ::testing::Test {
 protected:
  void write(const Index& index) { write_file(prefix_ + ".idx", index.bytes()); }
  void write_tokens(const std::vector<uint16_t>& tokens) {
    std::string bytes;
    for (const uint16_t token : tokens) bytes += bytes_of(token);
    write_file(prefix_ + ".bin", bytes);
  }
  void SetUp() override {
    write(Index());
    write_tokens({10, 11, 20, 21, 22, 30});
  }

  /// The error on opening after `change` to a valid index.
  std::string message_after(const std::function<void(Index&)>& change) {
    Index index;
    change(index);
    write(index);
    return error_of([&] { IndexedDataset dataset(prefix_); });
  }

  TestFolder folder_;
  std::string prefix_ = folder_ / "set";
};

std::vector<int32_t> all_tokens(const IndexedDataset& dataset) {
  std::vector<int32_t> tokens(static_cast<size_t>(dataset.num_tokens()));
  dataset.read_tokens(0, tokens);
  return tokens;
}

/// Opens the dataset and reads it in every way; only Error may be thrown. Returns whether it could
/// be opened.
bool survives(const std::string& prefix) {
  try {
    const IndexedDataset dataset(prefix);
    EXPECT_LE(dataset.num_tokens(), 1000);
    try {
      all_tokens(dataset);
      for (int64_t i = 0; i < dataset.num_sequences(); ++i) {
        std::vector<int32_t> tokens(static_cast<size_t>(dataset.sequence_length(i)));
        dataset.read(i, 0, tokens);
      }
      for (int64_t i = 0; i < dataset.num_documents(); ++i) {
        const Range sequences = dataset.document_sequences(i);
        EXPECT_TRUE(0 <= sequences.begin && sequences.begin <= sequences.end &&
                    sequences.end <= dataset.num_sequences());
      }
    } catch (const Error&) {  // an invalid token
    }
    return true;
  } catch (const Error&) {
    return false;
  }
}

TEST_F(IndexedDatasetTest, ReadsMegatronLayout) {
  ASSERT_EQ(Index().bytes().size(), 34u + 3 * 4 + 3 * 8 + 3 * 8);
  const IndexedDataset dataset(prefix_, 31);
  EXPECT_EQ(dataset.num_sequences(), 3);
  EXPECT_EQ(dataset.num_documents(), 2);
  EXPECT_EQ(dataset.num_tokens(), 6);
  EXPECT_EQ(dataset.token_type(), TokenType::u16);
  EXPECT_EQ(dataset.sequence_length(1), 3);
  EXPECT_EQ(dataset.sequence_start(2), 5);
  EXPECT_EQ(dataset.document_sequences(0), (Range{0, 2}));
  EXPECT_EQ(dataset.document_sequences(1), (Range{2, 3}));
  EXPECT_EQ(all_tokens(dataset), (std::vector<int32_t>{10, 11, 20, 21, 22, 30}));
  std::vector<int32_t> two(2);
  dataset.read(1, 1, two);
  EXPECT_EQ(two, (std::vector<int32_t>{21, 22}));
  dataset.read_tokens(1, two);
  EXPECT_EQ(two, (std::vector<int32_t>{11, 20}));
}

TEST_F(IndexedDatasetTest, ReadsSequencesInAnyFileOrder) {
  Index index;
  index.sequence_count = 4;
  index.lengths = {1, 3, 0, 2};
  index.pointers = {10, 4, 0, 0};
  index.documents = {0, 2, 4};
  write(index);
  const IndexedDataset dataset(prefix_);
  const std::vector<int32_t> expected = {30, 20, 21, 22, 10, 11};
  EXPECT_EQ(all_tokens(dataset), expected);
  EXPECT_EQ(dataset.sequence_start(3), 4);
  for (size_t begin = 0; begin < 6; ++begin) {
    for (size_t end = begin; end <= 6; ++end) {
      std::vector<int32_t> piece(end - begin);
      dataset.will_read_tokens(static_cast<int64_t>(begin), std::ssize(piece));
      dataset.read_tokens(static_cast<int64_t>(begin), piece);
      EXPECT_TRUE(std::equal(piece.begin(), piece.end(), expected.begin() + begin));
    }
  }
}

TEST_F(IndexedDatasetTest, FindsDocumentOfEveryToken) {
  Index index;
  index.document_entries = 6;
  index.documents = {0, 0, 2,
                     2, 3, 3};  // empty documents at the start, in the middle and at the end
  for (const bool one_after_the_other : {true, false}) {
    if (!one_after_the_other) index.pointers = {6, 0, 10};
    write(index);
    const IndexedDataset dataset(prefix_);
    EXPECT_EQ(dataset.document_tokens(0), (Range{0, 0}));
    EXPECT_EQ(dataset.document_tokens(1), (Range{0, 5}));
    EXPECT_EQ(dataset.document_tokens(2), (Range{5, 5}));
    EXPECT_EQ(dataset.document_tokens(3), (Range{5, 6}));
    EXPECT_EQ(dataset.document_tokens(4), (Range{6, 6}));
    for (int64_t token = 0; token < 6; ++token) {
      EXPECT_EQ(dataset.document_at(token), token < 5 ? 1 : 3);
    }
    EXPECT_THROW(dataset.document_at(-1), Error);
    EXPECT_THROW(dataset.document_at(6), Error);
    EXPECT_THROW(dataset.document_tokens(5), Error);
    EXPECT_THROW(dataset.document_tokens(-1), Error);
  }
}

TEST_F(IndexedDatasetTest, ReadsBeyondTwoBillionTokens) {
  constexpr int64_t kLong = INT32_MAX, kTokens = 2 * kLong + 3;
  Index index;
  index.lengths = {INT32_MAX, INT32_MAX, 3};
  index.pointers = {0, 2 * kLong, 4 * kLong};
  write(index);
  // A file with a hole, which takes no space on the disk: only the last three tokens are not 0.
  std::filesystem::resize_file(prefix_ + ".bin", static_cast<uintmax_t>(4 * kLong));
  std::ofstream(prefix_ + ".bin", std::ios::app | std::ios::binary)
      << bytes_of<uint16_t>(7) << bytes_of<uint16_t>(8) << bytes_of<uint16_t>(9);
  const auto dataset = std::make_shared<IndexedDataset>(prefix_, 10);
  EXPECT_EQ(dataset->num_tokens(), kTokens);
  EXPECT_EQ(dataset->document_at(kTokens - 1), 1);
  const GptDataset samples(dataset, {0, kTokens}, 4);
  EXPECT_EQ(samples.num_samples(), (kTokens - 1) / 4);
  std::vector<int32_t> tokens(4), targets(4);
  samples.fill(samples.num_samples() - 1, tokens, targets);
  EXPECT_EQ(tokens, (std::vector<int32_t>{0, 0, 7, 8}));
  EXPECT_EQ(targets, (std::vector<int32_t>{0, 7, 8, 9}));
}

TEST_F(IndexedDatasetTest, ReadsEmptyDataset) {
  Index index;
  index.sequence_count = 0;
  index.document_entries = 1;
  index.lengths = {};
  index.pointers = {};
  index.documents = {0};
  write(index);
  write_tokens({});
  const IndexedDataset dataset(prefix_);
  EXPECT_EQ(dataset.num_tokens() + dataset.num_sequences() + dataset.num_documents(), 0);
  dataset.read_tokens(0, {});
}

TEST_F(IndexedDatasetTest, NamesEveryInvalidField) {
  const std::string idx = prefix_ + ".idx";
  const auto names = [&](const std::function<void(Index&)>& change,
                         std::initializer_list<std::string> facts) {
    const std::string message = message_after(change);
    EXPECT_TRUE(names_all(message, {idx}));
    EXPECT_TRUE(names_all(message, facts));
  };
  names([](Index& i) { i.magic[3] = 'X'; }, {"magic at byte 0", "MMIDIDX"});
  names([](Index& i) { i.version = 2; }, {"version is 2 (byte 9)", "version 1"});
  names([](Index& i) { i.code = 6; }, {"dtype code is 6 = float64", "uint16 (8)"});
  names([](Index& i) { i.code = 7; }, {"dtype code is 7 = float32", "uint16 (8)"});
  names([](Index& i) { i.code = 9; }, {"dtype code is 9 (byte 17)", "uint16 (8)"});
  names([](Index& i) { i.code = 0; }, {"dtype code is 0"});
  names([](Index& i) { i.sequence_count = ~uint64_t{0}; },
        {"sequence count is 18446744073709551615", "94 bytes", "at most 5"});
  names([](Index& i) { i.sequence_count = uint64_t{1} << 62; }, {"sequence count is 4611686"});
  names([](Index& i) { i.document_entries = uint64_t{1} << 61; },
        {"document entries are 2305843009213693952", "at most 3"});
  names([](Index& i) { i.document_entries = 0; }, {"document entries are 0 (byte 26)"});
  names([](Index& i) { i.document_entries = 2; }, {"94 bytes", "take 86"});
  names([](Index& i) { i.tail = "abc"; }, {"multimodal", "3 sequences"});
  names([](Index& i) { i.tail = "ab"; }, {"96 bytes", "take 94"});
  names([](Index& i) { i.lengths[1] = -3; }, {"sequence length 1 is negative: -3 (byte 38)"});
  names([](Index& i) { i.lengths[1] = 1 << 30; }, {"sequence pointer 1", "1073741824 tokens"});
  names([](Index& i) { i.lengths[2] = 2; }, {"sequence pointer 2 is 10", "12 bytes", "set.bin"});
  names([](Index& i) { i.pointers[0] = -2; }, {"sequence pointer 0 is -2 (byte 46)"});
  names([](Index& i) { i.pointers[2] = int64_t{1} << 62; }, {"sequence pointer 2"});
  names([](Index& i) { i.pointers[1] = std::numeric_limits<int64_t>::max(); },
        {"sequence pointer 1"});
  names([](Index& i) { i.lengths[2] = 0; }, {"set.bin", "12 bytes", "5 tokens", "take 10"});
  names([](Index& i) { i.documents[0] = 1; }, {"document index 0 is 1", "must be 0"});
  names([](Index& i) { i.documents[1] = -1; }, {"document index 1 is -1 (byte 78)"});
  names([](Index& i) { i.documents[1] = 4; }, {"document index 2 is 3", "4 before"});
  names([](Index& i) { i.documents[2] = 2; }, {"document index 2", "is 2", "sequence count 3"});
}

TEST_F(IndexedDatasetTest, ExplainsMissingFilesAndWrongNames) {
  EXPECT_TRUE(names_all(error_of([&] { IndexedDataset dataset(folder_ / "none"); }),
                        {folder_ / "none.idx", "nor", "tessera prepare"}));
  EXPECT_TRUE(
      names_all(error_of([&] { IndexedDataset dataset(prefix_ + ".bin"); }), {"leave out .bin"}));
  std::filesystem::remove(prefix_ + ".bin");
  EXPECT_TRUE(names_all(error_of([&] { IndexedDataset dataset(prefix_); }),
                        {prefix_ + ".bin", "No such file"}));
}

TEST_F(IndexedDatasetTest, RejectsReadsOutsideDataset) {
  const IndexedDataset dataset(prefix_);
  std::vector<int32_t> two(2);
  std::vector<int32_t> seven(7);
  EXPECT_TRUE(names_all(error_of([&] { dataset.read_tokens(5, two); }),
                        {prefix_, "2 tokens from 5", "has 6"}));
  EXPECT_THROW(dataset.read_tokens(-1, two), Error);
  EXPECT_THROW(dataset.read_tokens(std::numeric_limits<int64_t>::max(), two), Error);
  EXPECT_THROW(dataset.read_tokens(0, seven), Error);
  // A hint outside the dataset is ignored.
  dataset.will_read_tokens(5, 2);
  dataset.will_read_tokens(-1, 2);
  dataset.will_read_tokens(std::numeric_limits<int64_t>::max(), 2);
  dataset.will_read_tokens(2, std::numeric_limits<int64_t>::max());
  dataset.will_read_tokens(2, -1);
  EXPECT_TRUE(names_all(error_of([&] { dataset.read(1, 2, two); }), {"sequence 1", "has 3"}));
  EXPECT_THROW(dataset.read(0, -1, two), Error);
  EXPECT_THROW(dataset.read(3, 0, two), Error);
  EXPECT_THROW(dataset.read(-1, 0, two), Error);
  EXPECT_THROW(dataset.sequence_length(3), Error);
  EXPECT_THROW(dataset.document_sequences(2), Error);
}

TEST_F(IndexedDatasetTest, NamesTokenOutsideVocabulary) {
  const IndexedDataset dataset(prefix_, 22);
  std::vector<int32_t> four(4);
  dataset.read_tokens(0, four);
  const std::string message = error_of([&] { dataset.read_tokens(1, four); });
  EXPECT_TRUE(names_all(message, {prefix_ + ".bin", "position 4 (byte 8)", "is 22", "22 tokens",
                                  "document 0, counted from 0"}));
  EXPECT_EQ(error_of([&] { dataset.read(1, 2, std::span(four).first(1)); }), message);
  EXPECT_TRUE(names_all(error_of([&] { dataset.read(2, 0, std::span(four).first(1)); }),
                        {"position 5", "is 30", "document 1, counted from 0"}));
  EXPECT_THROW(IndexedDataset(prefix_, 0), Error);
  EXPECT_THROW(IndexedDataset(prefix_, IndexedDataset::kAnyVocabulary + 1), Error);
}

TEST_F(IndexedDatasetTest, RejectsNegativeAndHugeTokens) {
  const auto message_for = [&](uint8_t code, const std::string& token) {
    Index index;
    index.code = code;
    index.sequence_count = 1;
    index.document_entries = 2;
    index.lengths = {1};
    index.pointers = {0};
    index.documents = {0, 1};
    write(index);
    write_file(prefix_ + ".bin", token);
    return error_of([&] { all_tokens(IndexedDataset(prefix_)); });
  };
  EXPECT_TRUE(names_all(message_for(2, bytes_of<int8_t>(-1)), {"is -1,"}));
  EXPECT_TRUE(names_all(message_for(3, bytes_of<int16_t>(-2)), {"is -2,"}));
  EXPECT_TRUE(names_all(message_for(4, bytes_of<int32_t>(-3)), {"is -3,"}));
  EXPECT_TRUE(names_all(message_for(5, bytes_of<int64_t>(int64_t{1} << 31)), {"is 2147483648,"}));
  EXPECT_TRUE(names_all(message_for(5, bytes_of<int64_t>(int64_t{1} << 40)), {"1099511627776"}));
}

TEST_F(IndexedDatasetTest, SurvivesEveryFlippedBit) {
  const std::string good = Index().bytes();
  int refused = 0;
  for (size_t i = 0; i < good.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      write_file(prefix_ + ".idx", bad);
      refused += survives(prefix_) ? 0 : 1;
    }
  }
  // The accepted ones are valid readings of the same bytes: a signed type, an overlapping sequence,
  // or another document boundary.
  EXPECT_GT(refused, static_cast<int>(good.size()) * 7);
}

TEST_F(IndexedDatasetTest, SurvivesEveryByteReplacedByExtremes) {
  const std::string good = Index().bytes();
  for (size_t i = 0; i < good.size(); ++i) {
    for (const char value : {'\x00', '\x7f', '\x80', '\xff'}) {
      for (size_t width = 1; width <= 8 && i + width <= good.size(); ++width) {
        std::string bad = good;
        bad.replace(i, width, width, value);
        write_file(prefix_ + ".idx", bad);
        survives(prefix_);
      }
    }
  }
}

TEST_F(IndexedDatasetTest, RejectsEveryTruncation) {
  const std::string good = Index().bytes();
  for (size_t size = 0; size < good.size(); ++size) {
    write_file(prefix_ + ".idx", good.substr(0, size));
    EXPECT_FALSE(survives(prefix_)) << size;
  }
  write(Index());
  const std::string bin = read_file(prefix_ + ".bin");
  for (size_t size = 0; size < bin.size(); ++size) {
    write_file(prefix_ + ".bin", bin.substr(0, size));
    EXPECT_FALSE(survives(prefix_)) << size;
  }
  write_file(prefix_ + ".bin", bin + "x");
  EXPECT_FALSE(survives(prefix_));
}

}  // namespace
}  // namespace tessera
