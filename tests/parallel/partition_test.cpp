#include "parallel/layers/partition.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(Partition, RangesDifferByAtMostOne) {
  for (const int64_t total : {0, 2, 12, 25}) {
    for (const int parts : {1, 4, 8}) {
      int64_t next = 0;
      for (int index = 0; index < parts; ++index) {
        const Range part = split_range(total, parts, index);
        EXPECT_EQ(part.begin, next);
        EXPECT_EQ(part.size(), total / parts + (index < total % parts ? 1 : 0));
        next = part.end;
      }
      EXPECT_EQ(next, total);
    }
  }
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
