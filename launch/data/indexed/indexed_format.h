#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/error.h"

namespace tessera {

/// Megatron-LM's tokenized dataset (megatron/core/datasets/indexed_dataset.py). PREFIX.bin contains
/// only tokens. PREFIX.idx is little-endian, without padding:
///
///     char[9]    magic                "MMIDIDX\0\0"
///     uint64     version              1
///     uint8      dtype code           of the tokens, see TokenType
///     uint64     sequence count       n
///     uint64     document entries     documents + 1
///     int32[n]   sequence lengths     tokens
///     int64[n]   sequence pointers    bytes from the start of PREFIX.bin
///     int64[..]  document indices     first sequence of each document, then n
///
/// The header has 34 bytes, so the arrays after it are not aligned.
inline constexpr std::string_view kIndexMagic{"MMIDIDX\0\0", 9};
inline constexpr uint64_t kIndexVersion = 1;
inline constexpr size_t kIndexVersionOffset = 9;
inline constexpr size_t kIndexTypeOffset = 17;
inline constexpr size_t kIndexSequencesOffset = 18;
inline constexpr size_t kIndexDocumentsOffset = 26;
inline constexpr size_t kIndexHeaderBytes = 34;
static_assert(std::endian::native == std::endian::little);

/// The stored type of a token, with its code in the index. Megatron's codes 6 (float64) and 7
/// (float32) are not token types.
enum class TokenType : uint8_t { u8 = 1, i8 = 2, i16 = 3, i32 = 4, i64 = 5, u16 = 8 };

/// Calls `body.template operator()<T>()` with the integer type for `type`.
template <typename Body>
decltype(auto) dispatch_token_type(TokenType type, Body&& body) {
  switch (type) {
    case TokenType::u8:
      return body.template operator()<uint8_t>();
    case TokenType::i8:
      return body.template operator()<int8_t>();
    case TokenType::i16:
      return body.template operator()<int16_t>();
    case TokenType::i32:
      return body.template operator()<int32_t>();
    case TokenType::i64:
      return body.template operator()<int64_t>();
    case TokenType::u16:
      return body.template operator()<uint16_t>();
  }
  fail("there is no token type with the code {}", static_cast<int>(type));
}

/// Returns the bytes per token.
size_t size_of(TokenType type);

/// "uint16"
std::string_view to_string(TokenType type);

/// Returns Megatron's choice: uint16 for fewer than 65500 tokens, otherwise int32.
TokenType token_type_for(int64_t vocab_size);

/// Returns the type with this code; throws, naming `path`, if the code is unknown or not a token
/// type.
TokenType token_type_from_code(uint8_t code, std::string_view path);

}  // namespace tessera
