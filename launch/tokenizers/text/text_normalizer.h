#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "launch/tokenizers/text/charsmap.h"

namespace tessera {

/// SentencePiece's mark of a space, U+2581.
inline constexpr std::string_view kSpaceMark = "\u2581";

/// A kind of step that changes a text before it is split into words, named as in a tokenizer.json.
/// The last four are regular expressions of "Replace" and the halves of "Strip" there.
enum class Normalization : uint8_t {
  nfc,  ///< "NFC", and so on: Unicode's forms
  nfd,
  nfkc,
  nfkd,
  nmt,            ///< "Nmt": drops control characters; some other characters become spaces
  lowercase,      ///< "Lowercase": of each character alone
  strip_accents,  ///< "StripAccents": drops combining marks
  prepend,        ///< "Prepend": a "▁" before a text that is not empty
  replace,        ///< "Replace": each `from` becomes `to`
  precompiled,    ///< "Precompiled": SentencePiece's rules
  squeeze,        ///< " {2,}" becomes `to`
  trim,           ///< "\A +| +\z" becomes nothing
  double_mark,    ///< "\A▁" becomes "▁▁"
  strip_left,     ///< white space before a text
  strip_right,    ///< white space after a text
};

struct NormalizationStep {
  // NOLINTNEXTLINE(google-explicit-constructor): most kinds have no parameters
  NormalizationStep(Normalization made_of) : kind(made_of) {}

  Normalization kind;
  std::string from = " ", to{kSpaceMark};
  std::shared_ptr<const Charsmap> rules;  ///< precompiled

  bool operator==(const NormalizationStep& other) const;
};

using Normalizer = std::vector<NormalizationStep>;

/// The name of a kind: that of the tokenizer.json, or a name of ours.
std::string_view to_string(Normalization kind);
/// Returns the kind with this name; throws, starting with `where`, if there is none.
Normalization normalization_of(std::string_view name, const std::string& where);

/// Returns `text` in Unicode's composed form NFC, as of Unicode 9 like the Python package
/// `tokenizers`: newer characters stay as they are. Invalid UTF-8 is kept.
std::string compose(std::string_view text);

/// Returns whether compose() would return `text` itself. May return false although it would.
bool is_composed(std::string_view text);

/// The maximum number of steps, and of bytes of `from` and `to`.
inline constexpr size_t kMostNormalizationSteps = 16;
inline constexpr size_t kMostReplacedBytes = 16;

/// Applies the steps in order. Throws if a text becomes more than 64 times as long. Other steps
/// than NFC, Prepend and Replace need valid UTF-8.
std::string normalize(std::string_view text, const Normalizer& steps);

/// Does the same with a text that may continue another one, so that steps do not add or drop
/// anything at its start. Returns whether the steps removed what `text` began with, as the package
/// sees it: then what is left is not the start of the text.
bool normalize_part(std::string& text, const Normalizer& steps, bool continues);

/// Returns whether normalize_part() knows for certain what it returns: not if a step may drop a
/// part of what another one made of a single character, such as a space and an accent.
bool knows_start(const Normalizer& steps);

/// Returns whether steps have the same result for the two parts of a text that is cut between
/// `last`, an ASCII character other than a space, and a space, as for the whole, and keep that
/// space. May return false although they have.
bool may_cut_before_space(const Normalizer& steps, char last);

}  // namespace tessera
