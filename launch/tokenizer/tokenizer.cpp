#include "launch/tokenizer/tokenizer.h"

#include "core/error.h"
#include "launch/tokenizer/byte_tokenizer.h"
#include "launch/tokenizer/tokenizer_spec.h"
#include "launch/tokenizer/wordpiece_tokenizer.h"

namespace tessera {

std::vector<int32_t> Tokenizer::encode_with_special(std::string_view text) const {
  return encode(text);
}

void Tokenizer::require_token(int32_t token) const {
  require(0 <= token && token < vocab_size(),
          "tokenizer {}: token {} is not in its vocabulary of {} tokens, 0 to {}", kind(), token,
          vocab_size(), vocab_size() - 1);
}

std::unique_ptr<Tokenizer> make_tokenizer(std::string_view text) {
  const TokenizerSpec spec = parse_tokenizer_spec(text);
  switch (spec.kind) {
    case TokenizerKind::byte:
      return std::make_unique<ByteTokenizer>();
    case TokenizerKind::wordpiece:
    case TokenizerKind::wordpiece_cased:
      break;
  }
  return std::make_unique<WordPieceTokenizer>(WordPieceVocabulary::read(spec.path),
                                              spec.kind == TokenizerKind::wordpiece_cased);
}

std::unique_ptr<Tokenizer> tokenizer_from_json(const Json& json, const std::string& source) {
  const JsonObject object(json, source);
  const std::string kind = object.text("kind");
  switch (tokenizer_kind(kind, source)) {
    case TokenizerKind::byte:
      return std::make_unique<ByteTokenizer>();
    case TokenizerKind::wordpiece:
      return std::make_unique<WordPieceTokenizer>(WordPieceVocabulary::from_json(object), false);
    case TokenizerKind::wordpiece_cased:
      return std::make_unique<WordPieceTokenizer>(WordPieceVocabulary::from_json(object), true);
  }
  fail("{}: there is no tokenizer {}", source, quote(kind));
}

}  // namespace tessera
