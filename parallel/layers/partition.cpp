#include "parallel/layers/partition.h"

#include <algorithm>

#include "core/checked.h"

namespace tessera {

Range split_range(int64_t total, int parts, int index) {
  const int64_t size = total / parts, longer = total % parts;
  const auto begin = [=](int64_t i) { return i * size + std::min(i, longer); };
  return {begin(index), begin(index + 1)};
}

VocabPartition partition_vocab(int64_t vocab_size, int parts, int index) {
  // Pad rows of logits to whole cache lines so that every vector load is aligned.
  constexpr int64_t kMultiple = 16;
  const int64_t padded = round_up(ceil_div(vocab_size, parts), kMultiple);
  const int64_t begin = std::min(vocab_size, index * padded);
  return {{begin, std::min(vocab_size, begin + padded)}, padded};
}

}  // namespace tessera
