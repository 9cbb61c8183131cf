#pragma once

#include <cstdint>
#include <string_view>

#include "core/range.h"

namespace tessera {

/// Part `index` of `total` items divided evenly into `parts`. Throws, naming `what`, unless `parts`
/// divides `total`.
Range even_range(int64_t total, int parts, int index, std::string_view what);

/// The shard of a vocabulary of any size on one tensor rank. Every rank has memory for `padded`
/// rows, the same number on all ranks, and has the global rows `local`. The last ranks may have
/// fewer, or none.
struct VocabPartition {
  Range local;
  int64_t padded = 0;
};

VocabPartition partition_vocab(int64_t vocab_size, int parts, int index);

}  // namespace tessera
