#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// Properties of normalization rules that determine where text can be cut.
struct CharsmapFacts {
  /// The bytes of " \n\t\r" that always normalize to a space: no rule contains them, except perhaps
  /// a rule for the single byte, and they become " " with or without that rule.
  std::string spaces = " ";
  /// Whether a rule produces U+2581, SentencePiece's mark for a space.
  bool makes_space_marks = false;
};

/// Checks the rules of a SentencePiece model (`precompiled_charsmap`): a double-array trie (Darts)
/// that maps bytes to positions in a list of NUL-terminated results. The library follows the trie
/// without bounds checks, so a damaged one could make it read anywhere. Throws, starting with
/// `where`, unless every path stays inside and is free of cycles, no text matches more than 32
/// nested rules, and all results are terminated and valid UTF-8. An empty map has no rules.
CharsmapFacts check_charsmap(std::string_view charsmap, const std::string& where);

/// Applies such rules as "Precompiled" of the Python package `tokenizers` does: to each grapheme of
/// up to 5 bytes as a whole, otherwise to each character. Unlike in SentencePiece, the shortest
/// rule counts, and its result also replaces what follows in the grapheme.
class Charsmap {
 public:
  /// Throws if check_charsmap() does, or if `bytes` is empty.
  Charsmap(std::string bytes, const std::string& where);

  const std::string& bytes() const { return bytes_; }
  const CharsmapFacts& facts() const { return facts_; }

  /// `text` is valid UTF-8.
  std::string apply(std::string_view text) const;

 private:
  /// Returns the result of the shortest rule that `text` starts with, if any.
  std::optional<std::string_view> result_of(std::string_view text) const;
  void append(std::string_view grapheme, std::string& out) const;

  std::string bytes_;
  CharsmapFacts facts_;
  std::vector<uint32_t> units_;
  size_t results_begin_ = 0;
};

}  // namespace tessera
