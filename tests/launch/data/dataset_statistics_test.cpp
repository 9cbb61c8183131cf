#include "launch/data/indexed/dataset_statistics.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "launch/tokenizers/byte_tokenizer.h"
#include "tests/launch/data/test_files.h"

namespace tessera {
namespace {

TEST(LengthStatistics, MatchSortedLengths) {
  EXPECT_EQ(length_statistics({}), LengthStatistics{});
  std::mt19937 random(1);
  for (const size_t count : {1, 2, 3, 99, 100, 101, 1000}) {
    std::vector<int64_t> lengths(count);
    for (int64_t& length : lengths) length = random() % 500;
    const LengthStatistics found = length_statistics(lengths);
    std::sort(lengths.begin(), lengths.end());
    // The least length that at least p% do not exceed, by counting.
    const auto percentile = [&](size_t p) {
      return *std::ranges::find_if(lengths, [&](int64_t length) {
        return 100 * static_cast<size_t>(std::ranges::upper_bound(lengths, length) -
                                         lengths.begin()) >=
               p * count;
      });
    };
    EXPECT_EQ(found.count, static_cast<int64_t>(count));
    EXPECT_EQ(found.empty, std::ranges::count(lengths, 0));
    EXPECT_EQ(found.median, percentile(50));
    EXPECT_EQ(found.percentile90, percentile(90));
    EXPECT_EQ(found.percentile99, percentile(99));
    EXPECT_EQ(found.longest, lengths.back());
    EXPECT_DOUBLE_EQ(found.mean, static_cast<double>(
                                     std::accumulate(lengths.begin(), lengths.end(), int64_t{0})) /
                                     static_cast<double>(count));
  }
}

TEST(DatasetStatistics, DescribeIndexAndMetadata) {
  const TestFolder folder;
  write_dataset(folder / "set", {{1}, {2, 3}, {}, std::vector<int32_t>(1500, 4)});
  const IndexedDataset dataset(folder / "set");
  EXPECT_EQ(describe_statistics(dataset, std::nullopt),
            "tokens     1,503 (uint16), 2.9 KiB\n"
            "documents  4, 1 of them empty\n"
            "  tokens in a   mean  median    90%    99%  longest\n"
            "  document     375.8       1  1,500  1,500    1,500\n"
            "  sequence     501.0       2  1,500  1,500    1,500\n");
  DatasetMetadata metadata;
  metadata.tokenizer = identity_of(ByteTokenizer());
  metadata.documents = 4;
  metadata.tokens = 1503;
  metadata.bytes = 3006;
  metadata.unknown = 15;
  metadata.empty_documents = 5;
  metadata.duplicates = 5;
  metadata.near_duplicates = 1;
  metadata.duplicates_dropped = true;
  metadata.shuffle_seed = 7;
  const std::string text = describe_statistics(dataset, metadata);
  EXPECT_TRUE(names_all(
      text, {"documents  4, 1 of them empty; 5 without a token were left out; in a random order "
             "with seed 7\n",
             "duplicates 5 (50.00%) have the text of an earlier document, 1 (10.00%) nearly; they "
             "were left out\n",
             "text       2.9 KiB, 2.00 bytes a token, unknown tokens: 15 (1.00%)\n"}));
  // Metadata are untrusted.
  metadata.duplicates = std::numeric_limits<int64_t>::max();
  metadata.near_duplicates = std::numeric_limits<int64_t>::max();
  EXPECT_TRUE(names_all(describe_statistics(dataset, metadata), {"(50.00%)"}));
}

}  // namespace
}  // namespace tessera
