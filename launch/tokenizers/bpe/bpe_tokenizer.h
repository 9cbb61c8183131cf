#pragma once

#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "launch/tokenizers/bpe/bpe_merges.h"
#include "launch/tokenizers/bpe/bpe_vocabulary.h"
#include "launch/tokenizers/tokenizer.h"

namespace tessera {

/// BPE: merges join the bytes of each word (byte_level_words.h), as in GPT-2, or the characters of
/// each word, as in Llama 2; or a unigram model splits each word, as in T5. Bytes survive a round
/// trip unless a normalizer changes them; characters do if the text is valid UTF-8. Matches the
/// Python package `tokenizers`.
class BpeTokenizer final : public Tokenizer {
 public:
  explicit BpeTokenizer(BpeVocabulary vocabulary);

  /// "bpe" or "unigram".
  std::string_view kind() const override;
  int64_t vocab_size() const override { return static_cast<int64_t>(vocabulary_.size()); }
  std::vector<int32_t> encode(std::string_view text) const override;
  std::vector<int32_t> encode_with_special(std::string_view text) const override;
  std::vector<int32_t> encode_part(std::string_view text,
                                   const TextNeighbors& neighbors) const override;
  size_t last_cut(std::string_view text) const override;
  size_t forced_cut(std::string_view text) const override;
  int64_t count_invalid(std::string_view text) const override;

  /// Returns the bytes of the tokens, without special tokens. Among characters, bytes that are not
  /// UTF-8 become U+FFFD.
  std::string decode(std::span<const int32_t> tokens) const override;
  bool decodes_piecewise() const override { return !vocabulary_.description().characters; }
  /// Among characters, all before the bytes at the end, which may become a character.
  size_t settled_bytes(std::span<const int32_t> tokens) const override;
  /// Unprintable bytes are shown as "\x0a"; special tokens and characters verbatim.
  std::string token_text(int32_t token) const override;
  /// The first of "<|endoftext|>", "<|end_of_text|>", "</s>" and "<eos>" that exists.
  std::optional<int32_t> end_of_document() const override;
  SpecialTokens special() const override { return vocabulary_.special(); }
  /// All tokens except special tokens and those that start with white space.
  std::vector<bool> continues_word() const override;
  std::vector<int32_t> named_tokens() const override;
  Json to_json() const override;

 private:
  struct WordHash {
    size_t operator()(std::string_view word) const;
  };
  using WordTokens = std::unordered_map<std::string_view, int32_t, WordHash>;

  class Encoding;

  std::vector<int32_t> encode(std::string_view text, bool special,
                              const TextNeighbors& neighbors) const;
  /// Calls `on_word(std::string_view)` with each word of normalized text of characters.
  template <typename OnWord>
  void for_each_character_word(std::string_view text, OnWord&& on_word) const;
  /// Returns in `tokens` those of a word.
  void encode_word(std::string_view word, std::vector<int32_t>& tokens,
                   BpeMerges::Workspace& workspace) const;
  /// The tokens of a word before any merge.
  void split_word(std::string_view word, std::vector<int32_t>& tokens) const;
  /// The text of a token that is not special; among characters with "▁".
  std::string_view text_of(int32_t token) const;
  std::string decode_characters(std::span<const int32_t> tokens) const;

  // The members below refer to the vocabulary.
  BpeVocabulary vocabulary_;
  BpeMerges merges_;
  std::optional<UnigramPieces> pieces_;  ///< instead of merges
  WordTokens single_;                    ///< words that are a single token
  AddedTokens before_normalizing_;
  AddedTokens after_normalizing_;
};

}  // namespace tessera
