#include "launch/data/loading/padded_sizes.h"

#include <algorithm>
#include <bit>

#include "core/checked.h"

namespace tessera {
namespace {

/// The largest power of two up to `size`, divided; at least 1.
int64_t granule(int64_t size, int64_t divisor) {
  return std::max<int64_t>(
      1, static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(size))) / divisor);
}

/// Documents with padding of less than two steps of tokens: so many that each has a token.
int64_t with_padding(int64_t documents, int64_t step, int64_t seq_length) {
  return round_up(documents + ceil_div(step, seq_length - 1) + 1, granule(step, 8));
}

}  // namespace

int64_t most_padded_documents(int64_t documents, int64_t sequences, int64_t seq_length) {
  const int64_t capacity = sequences * seq_length, step = granule(capacity, 32);
  if (step == 1 || seq_length == 1) return documents;
  return std::min(capacity, with_padding(documents, step, seq_length));
}

BatchSizes padded_sizes(const BatchSizes& real, int64_t sequences, int64_t seq_length,
                        bool uniform) {
  BatchSizes sizes = real;
  const int64_t capacity = sequences * seq_length;
  const int64_t step = granule(real.tokens, 32);
  if (real.tokens > 0 && !uniform && step > 1 && seq_length > 1) {
    const int64_t documents = with_padding(real.documents, step, seq_length);
    const int64_t tokens = real.tokens + documents - real.documents;
    if (tokens <= capacity) {
      sizes.documents = documents;
      sizes.tokens = std::min(round_up(tokens, step), capacity);
    }
  }
  sizes.targets = std::min(round_up(real.targets, granule(sizes.tokens, 64)), sizes.tokens);
  return sizes;
}

}  // namespace tessera
