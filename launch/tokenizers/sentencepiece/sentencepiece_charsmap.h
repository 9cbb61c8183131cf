#pragma once

#include <string>
#include <string_view>

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
/// nested rules, and all results are terminated. An empty map has no rules.
CharsmapFacts check_charsmap(std::string_view charsmap, const std::string& where);

}  // namespace tessera
