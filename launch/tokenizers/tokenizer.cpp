#include "launch/tokenizers/tokenizer.h"

#include "core/error.h"
#include "launch/tokenizers/bpe/bpe_tokenizer.h"
#include "launch/tokenizers/byte_tokenizer.h"
#include "launch/tokenizers/huggingface_json.h"
#include "launch/tokenizers/id_tokenizer.h"
#include "launch/tokenizers/sentencepiece/sentencepiece_tokenizer.h"
#include "launch/tokenizers/text/vocabulary_file.h"
#include "launch/tokenizers/tokenizer_spec.h"
#include "launch/tokenizers/wordpiece/wordpiece_tokenizer.h"

namespace tessera {
namespace {

std::unique_ptr<Tokenizer> wordpiece_from_json(const JsonObject& object, BertCasing casing) {
  if (object.has("strip_accents")) casing.strip_accents = object.flag("strip_accents");
  return std::make_unique<WordPieceTokenizer>(WordPieceVocabulary::from_json(object), casing);
}

/// Reads the file of a checkpoint or dataset, or that of a checkpoint's folder.
std::unique_ptr<Tokenizer> read_own_tokenizer(const std::string& path) {
  const std::string file_path = tokenizer_file_of(path);
  const MappedFile file = open_vocabulary_file(file_path, ',');
  return tokenizer_from_json(parse_json(file.text(), file_path), file_path);
}

}  // namespace

std::vector<int32_t> Tokenizer::encode_with_special(std::string_view text) const {
  return encode(text);
}

std::vector<int32_t> Tokenizer::encode_part(std::string_view text,
                                            const TextNeighbors& /*neighbors*/) const {
  return encode(text);
}

size_t Tokenizer::settled_bytes(std::span<const int32_t> tokens) const {
  return decode(tokens).size();
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
      return std::make_unique<WordPieceTokenizer>(WordPieceVocabulary::read(spec.path), kUncased);
    case TokenizerKind::wordpiece_cased:
      return std::make_unique<WordPieceTokenizer>(WordPieceVocabulary::read(spec.path), kCased);
    case TokenizerKind::bpe:
      return std::make_unique<BpeTokenizer>(BpeVocabulary(read_bpe_folder(spec.path)));
    case TokenizerKind::sentencepiece:
      return SentencePieceTokenizer::read(spec.path);
    case TokenizerKind::huggingface:
      return read_huggingface_tokenizer(spec.path);
    case TokenizerKind::tessera:
      return read_own_tokenizer(spec.path);
    case TokenizerKind::unigram:  // no specification has it
      break;
    case TokenizerKind::none:
      fail("none is no tokenizer, but stands for data of ids: name the tokenizer here, {}",
           tokenizer_specs_allowed());
  }
  fail("there is no tokenizer {}", quote(text));
}

std::unique_ptr<Tokenizer> tokenizer_from_json(const Json& json, const std::string& source) {
  const JsonObject object(json, source);
  const std::string kind = object.text("kind");
  switch (tokenizer_kind(kind, source)) {
    case TokenizerKind::byte:
      return std::make_unique<ByteTokenizer>();
    case TokenizerKind::wordpiece:
      return wordpiece_from_json(object, kUncased);
    case TokenizerKind::wordpiece_cased:
      return wordpiece_from_json(object, kCased);
    case TokenizerKind::bpe:
    case TokenizerKind::unigram:
      return std::make_unique<BpeTokenizer>(BpeVocabulary(bpe_from_json(object)));
    case TokenizerKind::sentencepiece:
      return SentencePieceTokenizer::from_json(object);
    case TokenizerKind::none:
      return id_tokenizer_from_json(object);
    case TokenizerKind::huggingface:  // their tokenizers are of the other kinds
    case TokenizerKind::tessera:
      break;
  }
  fail("{}: there is no tokenizer {}", source, quote(kind));
}

}  // namespace tessera
