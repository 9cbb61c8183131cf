#include "launch/data/datasets/pack_rows.h"

#include <numeric>

#include "core/random.h"
#include "tests/launch/data/test_files.h"

namespace tessera {
namespace {

std::vector<std::vector<int64_t>> rows_of(const PackedRows& packed) {
  std::vector<std::vector<int64_t>> rows;
  for (int64_t r = 0; r < packed.num_rows(); ++r) {
    const auto row = packed.row(r);
    rows.emplace_back(row.begin(), row.end());
  }
  return rows;
}

using Rows = std::vector<std::vector<int64_t>>;

TEST(PackRows, PutsEachPieceIntoTheFullestRowWithRoom) {
  EXPECT_EQ(rows_of(pack_rows({}, 8)), (Rows{}));
  EXPECT_EQ(rows_of(pack_rows(std::vector<int32_t>{8, 8, 8}, 8)), (Rows{{0}, {1}, {2}}));
  // 7 and 1; 6 and 2; 4, 3 and the other 1. Among rows with equal space, the most recent is used.
  EXPECT_EQ(rows_of(pack_rows(std::vector<int32_t>{3, 7, 2, 1, 4, 6, 1}, 8)),
            (Rows{{0, 3, 4}, {1, 6}, {2, 5}}));
}

TEST(PackRows, KeepsAllPiecesWithinCapacity) {
  for (const int64_t capacity : {1, 7, 64, 512}) {
    std::vector<int32_t> lengths;
    int64_t sum = 0;
    for (uint64_t i = 0; i < 3000; ++i) {
      const uint32_t bits = random_bits({1, RandomPurpose::sampling, 0, 0}, i);
      lengths.push_back(1 + static_cast<int32_t>(bits % static_cast<uint64_t>(capacity)));
      sum += lengths.back();
    }
    const PackedRows packed = pack_rows(lengths, capacity);
    std::vector<int> uses(lengths.size(), 0);
    int64_t first_before = -1;
    for (const auto& row : rows_of(packed)) {
      ASSERT_FALSE(row.empty());
      EXPECT_TRUE(std::ranges::is_sorted(row));
      EXPECT_GT(row.front(), first_before);
      first_before = row.front();
      int64_t length = 0;
      for (const int64_t piece : row) {
        ++uses[static_cast<size_t>(piece)];
        length += lengths[static_cast<size_t>(piece)];
      }
      EXPECT_LE(length, capacity);
    }
    EXPECT_EQ(uses, std::vector<int>(lengths.size(), 1));
    // Best fit decreasing needs at most 11/9 of the optimal number of rows, plus 4 (Johnson et al.,
    // 1974). With pieces of all lengths it is much closer.
    EXPECT_LE(9 * packed.num_rows(), 11 * ((sum + capacity - 1) / capacity) + 4 * 9 + 9);
    EXPECT_EQ(rows_of(pack_rows(lengths, capacity)), rows_of(packed));
  }
}

TEST(PackRows, RejectsOversizedPieces) {
  EXPECT_TRUE(names_all(error_of([] { pack_rows(std::vector<int32_t>{3, 9}, 8); }), {"9", "8"}));
  EXPECT_THROW(pack_rows(std::vector<int32_t>{0}, 8), Error);
}

}  // namespace
}  // namespace tessera
