#include "launch/tokenizers/text/text_normalizer.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/stringpiece.h>
#include <unicode/utf8.h>

#include <algorithm>

#include "core/checked.h"
#include "core/error.h"
#include "launch/support/text/json.h"
#include "launch/tokenizers/text/bert_text.h"
#include "launch/tokenizers/text/unicode.h"

namespace tessera {
namespace {

icu::StringPiece piece_of(std::string_view text) {
  return {text.data(), narrow<int32_t>(text.size())};
}

/// Returns the length of the valid UTF-8 at the start of `text`.
size_t valid_prefix(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    UChar32 c = 0;
    U8_NEXT(text.data(), at, text.size(), c);
    if (c < 0) return begin;
  }
  return text.size();
}

std::string replace_spaces(std::string_view text) {
  std::string marked;
  marked.reserve(text.size() + text.size() / 2);
  for (const char c : text) {
    if (c == ' ') {
      marked += kSpaceMark;
    } else {
      marked += c;
    }
  }
  return marked;
}

/// Appends the composed form of `text`; keeps invalid UTF-8.
void append_composed(std::string_view text, std::string& out) {
  while (!text.empty()) {
    const size_t valid = valid_prefix(text);
    UErrorCode status = U_ZERO_ERROR;
    icu::StringByteSink<std::string> sink(&out);
    unicode_9_nfc().normalizeUTF8(0, piece_of(text.substr(0, valid)), sink, nullptr, status);
    require_icu(status, "cannot normalize a text");
    text.remove_prefix(valid);
    if (text.empty()) break;
    size_t end = 0;
    UChar32 c = 0;
    U8_NEXT(text.data(), end, text.size(), c);
    out += text.substr(0, end);
    text.remove_prefix(end);
  }
}

constexpr Normalization kSteps[] = {Normalization::nfc, Normalization::prepend,
                                    Normalization::replace};

}  // namespace

std::string_view to_string(Normalization step) {
  switch (step) {
    case Normalization::nfc:
      return "NFC";
    case Normalization::prepend:
      return "Prepend";
    case Normalization::replace:
      return "Replace";
  }
  return "?";
}

Normalization normalization_of(std::string_view name, const std::string& where) {
  const auto* found = std::find_if(std::begin(kSteps), std::end(kSteps),
                                   [&](Normalization step) { return to_string(step) == name; });
  require(found != std::end(kSteps), "{} is {}, but only NFC, Prepend and Replace are supported",
          where, quote(name));
  return *found;
}

bool is_composed(std::string_view text) {
  if (is_ascii(text)) return true;
  if (valid_prefix(text) != text.size()) return false;
  UErrorCode status = U_ZERO_ERROR;
  const bool composed = icu_nfc().isNormalizedUTF8(piece_of(text), status) != 0;
  require_icu(status, "cannot check a text");
  return composed;
}

std::string compose(std::string_view text) {
  std::string composed;
  composed.reserve(text.size());
  // An ASCII character composes with nothing before it, and most words are composed already.
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find_first_of(" \n", begin + 1), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    if (is_composed(word)) {
      composed += word;
    } else {
      append_composed(word, composed);
    }
    begin = end;
  }
  return composed;
}

std::string normalize(std::string_view text, const std::vector<Normalization>& steps) {
  std::string result(text);
  for (const Normalization step : steps) {
    switch (step) {
      case Normalization::nfc:
        if (!is_composed(result)) result = compose(result);
        break;
      case Normalization::prepend:
        if (!result.empty()) result.insert(0, kSpaceMark);
        break;
      case Normalization::replace:
        result = replace_spaces(result);
        break;
    }
  }
  return result;
}

}  // namespace tessera
