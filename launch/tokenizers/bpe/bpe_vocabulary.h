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

/// Two tokens that stand side by side, and the one that they become.
struct BpeMerge {
  int32_t left = 0;
  int32_t right = 0;
  int32_t joined = 0;
};

/// Whether a token that nothing says to be special is: it is written as <...> or [...], has a
/// character that stands for no byte, or is one of the "madeupword0000" with which fairseq fills up
/// its vocabularies, RoBERTa's as well.
bool is_special_name(std::string_view text);

/// The tokens of a byte-level BPE tokenizer: the 256 bytes, what merges make of them, and special
/// tokens, which are all that is neither a byte nor made by a merge: nothing else tells them apart
/// in a vocab.json.
class BpeVocabulary {
 public:
  /// Throws unless each token is there once, each of the 256 bytes is one, each merge is of two
  /// tokens, is there once and makes a token, those that are said to be special are none of these,
  /// and all that are special are said to be so or have names of special tokens.
  explicit BpeVocabulary(BpeDescription bpe);

  size_t size() const { return bpe_.tokens.size(); }
  /// By their urgency.
  const std::vector<BpeMerge>& merges() const { return merges_; }
  int32_t byte_token(char byte) const { return byte_tokens_[static_cast<unsigned char>(byte)]; }
  /// What a token stands for; empty for a special one.
  std::string_view bytes(int32_t token) const { return bytes_[static_cast<size_t>(token)]; }
  /// As it is written in the vocabulary.
  const std::string& text(int32_t token) const { return bpe_.tokens[static_cast<size_t>(token)]; }

  bool is_special(int32_t token) const { return is_special_[static_cast<size_t>(token)]; }
  bool strips_left(int32_t token) const;
  /// All special tokens, in ascending order.
  const std::vector<int32_t>& special_tokens() const { return bpe_.special; }
  /// The special token that is written so, if there is one.
  std::optional<int32_t> find_special(std::string_view text) const;
  /// BERT's names first, then RoBERTa's.
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
