#include "parallel/layers/partition.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace tessera {
namespace {

TEST(Partition, EvenRangesCoverDimension) {
  for (int index = 0; index < 4; ++index) {
    EXPECT_EQ(even_range(12, 4, index, "heads"), (Range{index * 3, index * 3 + 3}));
  }
  EXPECT_THROW(even_range(10, 4, 0, "heads"), Error);
}

TEST(Partition, VocabRangesCoverAnySizeWithEqualPadding) {
  for (const int64_t vocab : {1, 7, 53, 257, 50257}) {
    for (const int parts : {1, 2, 3, 4, 8}) {
      int64_t next = 0;
      const int64_t padded = partition_vocab(vocab, parts, 0).padded;
      for (int index = 0; index < parts; ++index) {
        const VocabPartition part = partition_vocab(vocab, parts, index);
        EXPECT_EQ(part.padded, padded);
        EXPECT_EQ(part.local.begin, next);
        EXPECT_LE(part.local.size(), padded);
        next = part.local.end;
      }
      EXPECT_EQ(next, vocab) << vocab << " over " << parts;
      EXPECT_LT(padded * parts, vocab + 16 * parts + parts) << "more padding than alignment needs";
    }
  }
}

}  // namespace
}  // namespace tessera
