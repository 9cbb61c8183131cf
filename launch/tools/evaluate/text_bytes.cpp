#include "launch/tools/evaluate/text_bytes.h"

namespace tessera {

TextBytes::TextBytes(const Tokenizer& tokenizer) {
  if (!tokenizer.decodes_piecewise()) return;
  for (int32_t token = 0; token < tokenizer.vocab_size(); ++token) {
    bytes_of_.push_back(std::ssize(tokenizer.decode({&token, 1})));
  }
}

void TextBytes::add(const TokenBatch& batch) {
  for (const int32_t target : batch.targets.span<int32_t>()) {
    const auto token = static_cast<size_t>(target);
    if (token < bytes_of_.size()) sum_ += bytes_of_[token];
  }
}

}  // namespace tessera
