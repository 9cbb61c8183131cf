#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "launch/tokenizers/tokenizer.h"
#include "models/token_batch.h"

namespace tessera {

/// Counts the bytes of text that predicted tokens stand for, where each token is some bytes of its
/// own (Tokenizer::decodes_piecewise()).
class TextBytes {
 public:
  explicit TextBytes(const Tokenizer& tokenizer);

  bool known() const { return !bytes_of_.empty(); }
  /// The batch's targets; those beyond the vocabulary stand for nothing.
  void add(const TokenBatch& batch);
  int64_t sum() const { return sum_; }

 private:
  std::vector<int64_t> bytes_of_;  ///< of each token; empty where a token has no bytes of its own
  int64_t sum_ = 0;
};

}  // namespace tessera
