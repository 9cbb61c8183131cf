#pragma once

#include <cstdint>
#include <string>

#include "launch/tokenizers/tokenizer.h"

namespace tessera {

/// What tells two tokenizers apart. Equal identities: every token means the same, whichever file or
/// format the tokenizers came from.
struct TokenizerIdentity {
  std::string kind;        ///< Tokenizer::kind()
  int64_t vocab_size = 0;  ///< tokens
  std::string checksum;    ///< of Tokenizer::to_json() as text; see Checksum

  bool operator==(const TokenizerIdentity&) const = default;
};

TokenizerIdentity identity_of(const Tokenizer& tokenizer);

/// "wordpiece with 4000 tokens (xxh3-64:0123456789abcdef)"
std::string to_string(const TokenizerIdentity& identity);

/// As an object with the keys "kind", "vocab_size" and "checksum", and back. The second throws,
/// starting with `where`, if `json`, which may be hostile, is no such object.
Json to_json(const TokenizerIdentity& identity);
TokenizerIdentity tokenizer_identity_from_json(const Json& json, const std::string& where);

}  // namespace tessera
