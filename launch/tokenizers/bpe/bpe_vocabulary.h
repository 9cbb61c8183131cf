#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "launch/tokenizers/bpe/bpe_description.h"
#include "launch/tokenizers/special_tokens.h"

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

/// The tokens of a byte-level BPE tokenizer: the 256 bytes, the results of merges, and special
/// tokens. All tokens that are neither bytes nor made by a merge are special; a vocab.json does not
/// mark them.
class BpeVocabulary {
 public:
  /// Throws unless tokens are unique and include all 256 bytes, merges are unique and combine two
  /// tokens into a token, no declared special token is a byte or made by a merge, and every special
  /// token is declared or has a special name.
  explicit BpeVocabulary(BpeDescription bpe);

  size_t size() const { return bpe_.tokens.size(); }
  /// In order of priority.
  const std::vector<BpeMerge>& merges() const { return merges_; }
  int32_t byte_token(char byte) const { return byte_tokens_[static_cast<unsigned char>(byte)]; }
  /// Returns the bytes of a token; empty for a special token.
  std::string_view bytes(int32_t token) const { return bytes_[static_cast<size_t>(token)]; }
  /// Returns the token as written in the vocabulary.
  const std::string& text(int32_t token) const { return bpe_.tokens[static_cast<size_t>(token)]; }

  bool is_special(int32_t token) const { return is_special_[static_cast<size_t>(token)]; }
  bool strips_left(int32_t token) const;
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

  void add_merges(const Ids& ids, std::vector<bool>& is_plain);
  void mark_special(const std::vector<bool>& is_plain);
  void check_special_names(const std::vector<int32_t>& said_special) const;
  void find_bytes();

  BpeDescription bpe_;
  std::vector<BpeMerge> merges_;
  std::vector<std::string> bytes_;
  std::vector<bool> is_special_;
  std::array<int32_t, 256> byte_tokens_{};
};

}  // namespace tessera
