#pragma once

#include <cstdint>

namespace tessera {

/// Sizes of a micro-batch without source texts.
struct BatchSizes {
  int64_t tokens;     ///< N
  int64_t documents;  ///< S
  int64_t targets;    ///< M

  bool operator==(const BatchSizes&) const = default;
};

/// Returns the sizes of a batch with rows of padding, of which few occur, so that CUDA graphs
/// repeat. The batch has up to `sequences` rows of up to `seq_length` tokens. Padding tokens are
/// documents of their own, each of 1 to `seq_length` tokens, and padding targets belong to tokens
/// without a target. `uniform` batches, whose documents are equally long, and those without room
/// get no padding tokens.
///
/// Tokens become a multiple of their power of two / 32, documents of an eighth of that, and targets
/// of the tokens' power of two / 64. Padding is at most 4% of the tokens, except in batches of a
/// few hundred, and on average 1.5%; padding targets are at most 1.6% of the tokens.
BatchSizes padded_sizes(const BatchSizes& real, int64_t sequences, int64_t seq_length,
                        bool uniform);

/// The most documents that a batch of up to `documents` gets in this way.
int64_t most_padded_documents(int64_t documents, int64_t sequences, int64_t seq_length);

}  // namespace tessera
