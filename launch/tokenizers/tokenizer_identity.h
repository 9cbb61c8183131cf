#pragma once

#include <cstdint>
#include <string>

#include "launch/tokenizers/tokenizer.h"

namespace tessera {

/// Identifies a tokenizer. If identities are equal, every token means the same, whichever file or
/// format the tokenizers came from.
struct TokenizerIdentity {
  std::string kind;        ///< Tokenizer::kind()
  int64_t vocab_size = 0;  ///< number of tokens
  std::string checksum;    ///< of Tokenizer::to_json() as text; see Checksum

  bool operator==(const TokenizerIdentity&) const = default;
};

TokenizerIdentity identity_of(const Tokenizer& tokenizer);

/// "wordpiece with 4000 tokens (xxh3-64:0123456789abcdef)", or "none (ids 0 to 3999)"
std::string to_string(const TokenizerIdentity& identity);

/// Convert to and from an object with "kind", "vocab_size" and "checksum". The second treats `json`
/// as untrusted and throws, starting with `where`, if it is invalid.
Json to_json(const TokenizerIdentity& identity);
TokenizerIdentity tokenizer_identity_from_json(const Json& json, const std::string& where);

}  // namespace tessera
