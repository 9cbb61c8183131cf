#pragma once

#include <cstdint>
#include <string_view>

#include "core/range.h"

namespace tessera {

/// Part `index` of `total` things split evenly into `parts`; throws, naming `what`, if they can not
/// be.
Range even_range(int64_t total, int parts, int index, std::string_view what);

/// A vocabulary of any size over tensor ranks: every rank has room for `padded` rows (the same on
/// all), of which it holds the global rows `held`; the last ranks may hold fewer, or none.
struct VocabPartition {
  Range held;
  int64_t padded = 0;
};

VocabPartition partition_vocab(int64_t vocab_size, int parts, int index);

}  // namespace tessera
