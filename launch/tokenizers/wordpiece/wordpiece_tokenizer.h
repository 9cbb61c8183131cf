#pragma once

#include <utility>

#include "launch/tokenizers/text/bert_text.h"
#include "launch/tokenizers/tokenizer.h"
#include "launch/tokenizers/wordpiece/wordpiece_vocabulary.h"

namespace tessera {

/// BERT's WordPiece: words as for_each_bert_word() finds them, each cut into the longest pieces of
/// the vocabulary from the left; a word of more than 100 characters, or that has no pieces, is
/// [UNK]. Its tokens are those of the Python package `tokenizers`. It has no end of a document.
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
  size_t last_cut(std::string_view text) const override;
  size_t forced_cut(std::string_view text) const override;
  int64_t count_invalid(std::string_view text) const override;

  /// Words with a space between them, but none where English writes none: "it ' s ." is "it's.", as
  /// in the Python package `transformers`. [PAD], [CLS] and [SEP] show as nothing.
  std::string decode(std::span<const int32_t> tokens) const override;
  bool decodes_piecewise() const override { return false; }
  std::string token_text(int32_t token) const override;
  std::optional<int32_t> end_of_document() const override { return std::nullopt; }
  SpecialTokens special() const override { return vocabulary_.special(); }
  std::vector<bool> continues_word() const override;
  /// With "strip_accents" where that is not what the kind does.
  Json to_json() const override;

 private:
  void append_words(std::string_view text, std::vector<int32_t>& tokens) const;

  WordPieceVocabulary vocabulary_;
  BertCasing casing_;
};

}  // namespace tessera
