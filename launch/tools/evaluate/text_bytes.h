#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "launch/tokenizers/tokenizer.h"
#include "models/token_batch.h"

namespace tessera {

/// Counts the bytes of text that predicted tokens stand for, if each token has its own bytes
/// (Tokenizer::decodes_piecewise()).
class TextBytes {
 public:
  explicit TextBytes(const Tokenizer& tokenizer);

  bool known() const { return !bytes_of_.empty(); }
  /// Adds the batch's targets. Targets beyond the vocabulary count 0 bytes.
  void add(const TokenBatch& batch);
  int64_t sum() const { return sum_; }

 private:
  std::vector<int64_t> bytes_of_;  ///< per token; empty if tokens have no bytes of their own
  int64_t sum_ = 0;
};

}  // namespace tessera
