#include "launch/metrics/token_bytes.h"

namespace tessera {

TokenBytes::TokenBytes(const Tokenizer& tokenizer) {
  if (!tokenizer.decodes_piecewise()) return;
  for (int32_t token = 0; token < tokenizer.vocab_size(); ++token) {
    bytes_of_.push_back(std::ssize(tokenizer.decode({&token, 1})));
  }
}

}  // namespace tessera
