#pragma once

#include <cstdint>
#include <vector>

#include "launch/tokenizers/tokenizer.h"

namespace tessera {

/// The bytes of text that each token stands for, if each has its own
/// (Tokenizer::decodes_piecewise()). A special token stands for none.
class TokenBytes {
 public:
  TokenBytes() = default;  ///< nothing is known
  explicit TokenBytes(const Tokenizer& tokenizer);

  bool known() const { return !bytes_of_.empty(); }
  /// 0 for tokens beyond the vocabulary.
  int64_t of(int32_t token) const {
    const auto index = static_cast<size_t>(token);
    return index < bytes_of_.size() ? bytes_of_[index] : 0;
  }

 private:
  std::vector<int64_t> bytes_of_;  // per token
};

}  // namespace tessera
