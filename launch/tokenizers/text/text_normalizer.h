#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// A step that changes a text before it is split into words, named as in a tokenizer.json.
enum class Normalization : uint8_t {
  nfc,      ///< "NFC": Unicode's composed form
  prepend,  ///< "Prepend": a "▁" before a text that is not empty
  replace,  ///< "Replace": each space becomes "▁"
};

/// SentencePiece's mark of a space, U+2581.
inline constexpr std::string_view kSpaceMark = "\u2581";

std::string_view to_string(Normalization step);
/// Returns the step with this name; throws, starting with `where`, if there is none.
Normalization normalization_of(std::string_view name, const std::string& where);

/// Returns `text` in Unicode's composed form NFC, as of Unicode 9 like the Python package
/// `tokenizers`: newer characters stay as they are. Invalid UTF-8 is kept.
std::string compose(std::string_view text);

/// Returns whether compose() would return `text` itself. May return false although it would.
bool is_composed(std::string_view text);

/// Applies the steps in order.
std::string normalize(std::string_view text, const std::vector<Normalization>& steps);

}  // namespace tessera
