#pragma once

#include <array>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "launch/tokenizers/bpe/bpe_merges.h"
#include "launch/tokenizers/bpe/bpe_vocabulary.h"
#include "launch/tokenizers/tokenizer.h"

namespace tessera {

/// GPT-2's byte-level BPE: merges join the bytes of each word (byte_level_words.h). Any bytes
/// survive a round trip. Matches the Python package `tokenizers`.
class BpeTokenizer final : public Tokenizer {
 public:
  explicit BpeTokenizer(BpeVocabulary vocabulary);

  std::string_view kind() const override { return "bpe"; }
  int64_t vocab_size() const override { return static_cast<int64_t>(vocabulary_.size()); }
  std::vector<int32_t> encode(std::string_view text) const override;
  std::vector<int32_t> encode_with_special(std::string_view text) const override;
  size_t last_cut(std::string_view text) const override;
  size_t forced_cut(std::string_view text) const override;
  int64_t count_invalid(std::string_view) const override { return 0; }

  /// Returns the bytes of the tokens, without special tokens.
  std::string decode(std::span<const int32_t> tokens) const override;
  bool decodes_piecewise() const override { return true; }
  /// Unprintable bytes are shown as "\x0a", special tokens verbatim.
  std::string token_text(int32_t token) const override;
  /// "<|endoftext|>", or "</s>" if there is no such token.
  std::optional<int32_t> end_of_document() const override;
  SpecialTokens special() const override { return vocabulary_.special(); }
  /// All tokens except special tokens and those that start with white space.
  std::vector<bool> continues_word() const override;
  Json to_json() const override;

 private:
  struct WordHash {
    size_t operator()(std::string_view word) const;
  };
  using WordTokens = std::unordered_map<std::string_view, int32_t, WordHash>;

  class Encoding;

  void append(std::string_view text, std::vector<int32_t>& tokens) const;
  /// Returns the longest special token at the start of `text`, if any.
  std::optional<int32_t> special_at(std::string_view text) const;

  // The members below refer to the vocabulary.
  BpeVocabulary vocabulary_;
  BpeMerges merges_;
  WordTokens single_;  ///< words that are a single token
  /// Special tokens by the first byte of their text, longest first.
  std::array<std::vector<int32_t>, 256> special_by_byte_;
};

}  // namespace tessera
