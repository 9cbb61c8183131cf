#include "launch/tokenizers/tokenizer_identity.h"

#include <span>

#include "core/error.h"
#include "launch/support/files/checksum.h"
#include "launch/tokenizers/id_tokenizer.h"

namespace tessera {

TokenizerIdentity identity_of(const Tokenizer& tokenizer) {
  const std::string text = to_text(tokenizer.to_json());
  return {std::string(tokenizer.kind()), tokenizer.vocab_size(),
          checksum_of(std::as_bytes(std::span(text)))};
}

std::string to_string(const TokenizerIdentity& identity) {
  if (identity.kind == kNoTokenizer) {
    return fmt::format("{} (ids 0 to {})", identity.kind, identity.vocab_size - 1);
  }
  return fmt::format("{} with {} tokens ({})", identity.kind, identity.vocab_size,
                     identity.checksum);
}

Json to_json(const TokenizerIdentity& identity) {
  return {{"kind", identity.kind},
          {"vocab_size", identity.vocab_size},
          {"checksum", identity.checksum}};
}

TokenizerIdentity tokenizer_identity_from_json(const Json& json, const std::string& where) {
  const JsonObject object(json, where);
  return {object.text("kind"), object.count("vocab_size"), object.text("checksum")};
}

}  // namespace tessera
