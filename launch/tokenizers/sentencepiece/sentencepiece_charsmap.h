#pragma once

#include <string>
#include <string_view>

namespace tessera {

/// What rules of normalization do that matters for where text can be cut.
struct CharsmapFacts {
  /// The bytes of " \n\t\r" that are a space wherever they stand: no rule but perhaps one for the
  /// byte alone has it, and without the rule, or by it, it becomes " ".
  std::string spaces = " ";
  /// Whether a rule makes U+2581, which is what SentencePiece writes a space as.
  bool makes_space_marks = false;
};

/// Checks the rules of a SentencePiece model (`precompiled_charsmap`): a double array trie (Darts)
/// from bytes to places in a text of results, each of which ends in a NUL byte. The library follows
/// it without looking at its bounds, so that a damaged one would make it read anywhere. Throws,
/// starting with `where`, unless every path stays inside, no path comes back to where it was, no
/// text has more than 32 rules that start with one another, and all results end. Empty rules are
/// none.
CharsmapFacts check_charsmap(std::string_view charsmap, const std::string& where);

}  // namespace tessera
