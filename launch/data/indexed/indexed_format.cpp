#include "launch/data/indexed/indexed_format.h"

namespace tessera {

size_t size_of(TokenType type) {
  return dispatch_token_type(type, []<typename T>() { return sizeof(T); });
}

std::string_view to_string(TokenType type) {
  switch (type) {
    case TokenType::u8:
      return "uint8";
    case TokenType::i8:
      return "int8";
    case TokenType::i16:
      return "int16";
    case TokenType::i32:
      return "int32";
    case TokenType::i64:
      return "int64";
    case TokenType::u16:
      return "uint16";
  }
  return "?";
}

TokenType token_type_for(int64_t vocab_size) {
  return vocab_size < 65500 ? TokenType::u16 : TokenType::i32;
}

TokenType token_type_from_code(uint8_t code, std::string_view path) {
  constexpr std::string_view kAllowed =
      "tokens are uint8 (1), int8 (2), int16 (3), int32 (4), int64 (5) or uint16 (8)";
  require(code != 6 && code != 7, "{}: dtype code is {} = {} (byte {}), but {}", path, code,
          code == 6 ? "float64" : "float32", kIndexTypeOffset, kAllowed);
  require((1 <= code && code <= 5) || code == 8,
          "{}: dtype code is {} (byte {}), which is unknown: {}", path, code, kIndexTypeOffset,
          kAllowed);
  return static_cast<TokenType>(code);
}

}  // namespace tessera
