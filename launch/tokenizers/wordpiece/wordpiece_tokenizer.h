#pragma once

#include <utility>

#include "launch/tokenizers/text/bert_text.h"
#include "launch/tokenizers/tokenizer.h"
#include "launch/tokenizers/wordpiece/wordpiece_vocabulary.h"

namespace tessera {

/// BERT's WordPiece: splits words (for_each_bert_word()) from the left into the longest pieces in
/// the vocabulary. A word of more than 100 characters, or without a complete split, is [UNK].
/// Matches the Python package `tokenizers`. Has no end-of-document token.
class WordPieceTokenizer final : public Tokenizer {
 public:
  WordPieceTokenizer(WordPieceVocabulary vocabulary, BertCasing casing)
      : vocabulary_(std::move(vocabulary)), casing_(casing) {}

  std::string_view kind() const override {
    return casing_.lower_case ? "wordpiece" : "wordpiece-cased";
  }
  int64_t vocab_size() const override { return static_cast<int64_t>(vocabulary_.tokens().size()); }
  std::vector<int32_t> encode(std::string_view text) const override;
  std::vector<int32_t> encode_with_special(std::string_view text) const override;
  std::vector<int32_t> named_tokens() const override;
  size_t last_cut(std::string_view text) const override;
  size_t forced_cut(std::string_view text) const override;
  int64_t count_invalid(std::string_view text) const override;

  /// Joins words with spaces, except where English has none: "it ' s ." becomes "it's.", as in the
  /// Python package `transformers`. Omits [PAD], [CLS] and [SEP].
  std::string decode(std::span<const int32_t> tokens) const override;
  bool decodes_piecewise() const override { return false; }
  /// All but the last bytes, whose spaces depend on what follows.
  size_t settled_bytes(std::span<const int32_t> tokens) const override;
  std::string token_text(int32_t token) const override;
  std::optional<int32_t> end_of_document() const override { return std::nullopt; }
  SpecialTokens special() const override { return vocabulary_.special(); }
  std::vector<bool> continues_word() const override;
  /// Includes "strip_accents" if it differs from the kind's default.
  Json to_json() const override;

 private:
  void append_words(std::string_view text, std::vector<int32_t>& tokens) const;

  WordPieceVocabulary vocabulary_;
  BertCasing casing_;
};

}  // namespace tessera
