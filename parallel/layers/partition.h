#pragma once

#include <cstdint>

#include "core/range.h"

namespace tessera {

/// Part `index` of `total` items divided into `parts` as evenly as possible: the first total %
/// parts of them have one item more than the others.
///
///     25 heads, 4 parts: 7, 6, 6, 6
Range split_range(int64_t total, int parts, int index);

/// The shard of a vocabulary of any size on one tensor rank. Every rank has memory for `padded`
/// rows, the same number on all ranks, and has the global rows `local`. The last ranks may have
/// fewer, or none.
struct VocabPartition {
  Range local;
  int64_t padded = 0;
};

VocabPartition partition_vocab(int64_t vocab_size, int parts, int index);

}  // namespace tessera
