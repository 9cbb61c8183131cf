#include "launch/data/tokenizer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "core/error.h"

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
    if (token == end_of_document()) continue;
    if (token < 0 || token > 255) {
      fail("tokenizer byte: token {} is not in its vocabulary of {} tokens, 0 to {}", token,
           vocab_size(), vocab_size() - 1);
    }
    text.push_back(static_cast<char>(token));
  }
  return text;
}

std::span<const std::string_view> tokenizer_names() {
  static constexpr std::array<std::string_view, 1> kNames = {"byte"};
  return kNames;
}

std::unique_ptr<Tokenizer> make_tokenizer(std::string_view name) {
  if (name == "byte") return std::make_unique<ByteTokenizer>();
  fail("there is no tokenizer \"{}\": choose one of: {}", name,
       fmt::join(tokenizer_names().begin(), tokenizer_names().end(), ", "));
}

}  // namespace tessera
