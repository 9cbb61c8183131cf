#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// A token that is looked for in a text before the text is split into words.
struct AddedToken {
  int32_t id = 0;
  std::string text;          ///< what is looked for, not empty
  bool special = false;      ///< ordinary text where special tokens are
  bool strip_left = false;   ///< absorbs the white space before it
  bool strip_right = false;  ///< absorbs the white space after it
  bool single_word = false;  ///< only where no letter, digit or "_" is next to it
};

/// Finds added tokens as the Python package `tokenizers` does: the leftmost, and of those the
/// longest; then on after its end.
class AddedTokens {
 public:
  explicit AddedTokens(std::vector<AddedToken> tokens);

  /// Whether split() may find a token. Without `special`, special tokens count as text.
  bool may_find(bool special) const { return special ? !tokens_.empty() : finds_plain_; }

  /// Calls `on_text` with the text between tokens, never empty, and `on_token` with tokens. The
  /// views are parts of `text`.
  void split(std::string_view text, bool special,
             const std::function<void(std::string_view)>& on_text,
             const std::function<void(int32_t)>& on_token) const;

  /// Returns the text between two tokens without the white space that they absorb.
  std::string_view between(std::optional<int32_t> before, std::string_view text,
                           std::optional<int32_t> after) const;

  /// Returns whether split() without `special` finds the same in the two parts of a text as in the
  /// whole, if the first part ends in `last` and the second starts with `first`, a space or another
  /// ASCII character. May return false although it does.
  bool may_cut(char last, char first) const;

 private:
  /// Returns the index of the longest token at the start of `text`, or -1.
  int find(std::string_view text) const;

  std::vector<AddedToken> tokens_;
  bool finds_plain_ = false;
  std::array<std::vector<int>, 256> by_first_byte_;  ///< indices, longest first
  std::bitset<65536> starts_;  ///< the first two bytes of tokens; of a single byte, any second one
  std::bitset<65536> inside_;  ///< neighbors in tokens
  std::bitset<256> ends_;      ///< last bytes of tokens that what follows matters to
  std::bitset<256> begins_;    ///< first bytes of tokens that what precedes matters to
};

}  // namespace tessera
