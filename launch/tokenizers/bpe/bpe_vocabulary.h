#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "launch/tokenizers/bpe/bpe_description.h"
#include "launch/tokenizers/bpe/unigram_pieces.h"
#include "launch/tokenizers/special_tokens.h"
#include "launch/tokenizers/text/added_tokens.h"

namespace tessera {

/// Two adjacent tokens and the token they merge into.
struct BpeMerge {
  int32_t left = 0;
  int32_t right = 0;
  int32_t joined = 0;
};

/// Returns whether an undeclared token is special by its name: it looks like <...> or [...],
/// contains a character that stands for no byte, or is a "madeupword0000" with which fairseq pads
/// its vocabularies, including RoBERTa's.
bool is_special_name(std::string_view text);

/// The tokens of a BPE tokenizer.
///
/// Byte-level: the 256 bytes, the results of merges, added and special tokens. All tokens that are
/// neither bytes, nor made by a merge, nor added are special; a vocab.json does not mark them. With
/// `ignore_merges` they are words, unless they are declared or have a special name.
///
/// Character-level: the 256 bytes as "<0x0A>", characters, the results of merges, added and special
/// tokens, which are declared.
///
/// A unigram model: pieces, added and special tokens, which are declared. Special tokens and the
/// bytes are pieces, too.
class BpeVocabulary {
 public:
  /// Throws unless tokens are unique and include all 256 bytes, merges are unique and combine two
  /// tokens into a token, no declared special token of bytes is a byte or made by a merge, every
  /// special token is declared or has a special name, and the other members fit together.
  explicit BpeVocabulary(BpeDescription bpe);

  size_t size() const { return bpe_.tokens.size(); }
  /// In order of priority.
  const std::vector<BpeMerge>& merges() const { return merges_; }
  int32_t byte_token(char byte) const { return byte_tokens_[static_cast<unsigned char>(byte)]; }
  /// Returns the bytes that a token stands for in normalized text; empty for a special or added
  /// token and, among characters, for a byte.
  std::string_view bytes(int32_t token) const { return bytes_[static_cast<size_t>(token)]; }
  /// Among characters: the token that is this character, if any.
  std::optional<int32_t> find_character(std::string_view character) const;
  /// Among characters: the byte that a token stands for, if it does.
  std::optional<char> fallback_byte(int32_t token) const;
  /// The pieces of a unigram model that occur in text, and others that are not special.
  UnigramPieces unigram_pieces() const;
  /// Whether no word crosses from another character to a "▁", so that words can be split there.
  bool splits_before_mark() const { return splits_before_mark_; }
  /// Returns the token as written in the vocabulary.
  const std::string& text(int32_t token) const { return bpe_.tokens[static_cast<size_t>(token)]; }

  bool is_special(int32_t token) const { return is_special_[static_cast<size_t>(token)]; }
  /// The added tokens, and with them the special ones, that are looked for in normalized text or
  /// before.
  AddedTokens added_tokens(bool normalized) const;
  /// All special tokens, in ascending order.
  const std::vector<int32_t>& special_tokens() const { return bpe_.special; }
  /// Returns the special token with this text, if any.
  std::optional<int32_t> find_special(std::string_view text) const;
  /// Looks for BERT's names first, then for RoBERTa's.
  SpecialTokens special() const;

  bool add_prefix_space() const { return bpe_.add_prefix_space; }
  const BpeDescription& description() const { return bpe_; }

 private:
  using Ids = std::unordered_map<std::string_view, int32_t>;

  std::string byte_text(uint8_t byte) const;
  void check_settings() const;
  void check_unigram() const;
  void find_byte_tokens(const Ids& ids, std::vector<bool>& is_plain);
  void add_merges(const Ids& ids, std::vector<bool>& is_plain);
  void mark_special(std::vector<bool>& is_plain);
  void check_special_names(const std::vector<int32_t>& said_special) const;
  void find_bytes();
  void find_characters(const Ids& ids);

  BpeDescription bpe_;
  std::vector<BpeMerge> merges_;
  std::vector<std::string> bytes_;
  std::vector<bool> is_special_;
  std::vector<bool> is_word_;  ///< bytes and the results of merges
  std::array<int32_t, 256> byte_tokens_{};
  std::unordered_map<std::string, int32_t> characters_;
  std::unordered_map<int32_t, char> byte_of_;  ///< of characters_
  bool splits_before_mark_ = false;
};

}  // namespace tessera
