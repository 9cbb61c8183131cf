#include "launch/tokenizers/byte_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

namespace tessera {

std::vector<int32_t> ByteTokenizer::encode(std::string_view text) const {
  std::vector<int32_t> tokens(text.size());
  std::transform(text.begin(), text.end(), tokens.begin(),
                 [](char byte) { return static_cast<unsigned char>(byte); });
  return tokens;
}

std::string ByteTokenizer::decode(std::span<const int32_t> tokens) const {
  std::string text;
  text.reserve(tokens.size());
  for (const int32_t token : tokens) {
    require_token(token);
    if (token != kEnd) text.push_back(static_cast<char>(token));
  }
  return text;
}

std::string ByteTokenizer::token_text(int32_t token) const {
  require_token(token);
  if (token == kEnd) return "[END]";
  if (' ' <= token && token <= '~') return {static_cast<char>(token)};
  return fmt::format("\\x{:02x}", token);
}

std::vector<bool> ByteTokenizer::continues_word() const {
  return std::vector<bool>(static_cast<size_t>(vocab_size()), false);
}

}  // namespace tessera
