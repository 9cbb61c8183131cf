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
#include "launch/tokenizers/text/byte_level_words.h"
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

/// Appends the normal form of `text`; keeps invalid UTF-8.
void append_normal(const icu::Normalizer2& form, std::string_view text, std::string& out) {
  while (!text.empty()) {
    const size_t valid = valid_prefix(text);
    UErrorCode status = U_ZERO_ERROR;
    icu::StringByteSink<std::string> sink(&out);
    form.normalizeUTF8(0, piece_of(text.substr(0, valid)), sink, nullptr, status);
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

struct Name {
  Normalization kind;
  std::string_view name;
};
constexpr Name kNames[] = {
    {Normalization::nfc, "NFC"},
    {Normalization::nfd, "NFD"},
    {Normalization::nfkc, "NFKC"},
    {Normalization::nfkd, "NFKD"},
    {Normalization::nmt, "Nmt"},
    {Normalization::lowercase, "Lowercase"},
    {Normalization::strip_accents, "StripAccents"},
    {Normalization::prepend, "Prepend"},
    {Normalization::replace, "Replace"},
    {Normalization::precompiled, "Precompiled"},
    {Normalization::squeeze, "squeeze"},
    {Normalization::trim, "trim"},
    {Normalization::double_mark, "double_mark"},
    {Normalization::strip_left, "strip_left"},
    {Normalization::strip_right, "strip_right"},
};

std::string normal(const icu::Normalizer2& form, std::string_view text) {
  std::string out;
  append_normal(form, text, out);
  return out;
}

void append_character(std::string& text, UChar32 c) {
  char bytes[U8_MAX_LENGTH];
  size_t size = 0;
  U8_APPEND_UNSAFE(bytes, size, c);
  text.append(bytes, size);
}

/// Returns what `change(c, out)` appends for each character of valid UTF-8.
template <typename Change>
std::string change_each(std::string_view text, Change&& change) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    UChar32 c = 0;
    U8_NEXT(text.data(), at, text.size(), c);
    change(c, out);
  }
  return out;
}

void append_lower(UChar32 c, std::string& out) {
  constexpr UChar32 kDottedI = 0x130;  // the only character that becomes two
  if (c == kDottedI) {
    out += "i\u0307";
  } else if (c == 0xA7CE || c == 0xA7D2 || c == 0xA7D4) {  // of Unicode 17, like the next ones
    append_character(out, c + 1);
  } else if (0x16EA0 <= c && c <= 0x16EB8) {
    append_character(out, c + 0x1B);
  } else {
    append_character(out, lower_case(c));
  }
}

bool is_dropped_by_nmt(UChar32 c) {
  return (0x1 <= c && c <= 0x8) || c == 0xB || (0xE <= c && c <= 0x1F) || c == 0x7F || c == 0x8F ||
         c == 0x9F;
}

bool is_space_of_nmt(UChar32 c) {
  return c == 0x9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
         (0x200B <= c && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF ||
         c == 0xFFFD;
}

/// Returns `text` without the characters that `is_dropped`. Notes in `moved` if the first is.
template <typename IsDropped>
std::string drop(std::string_view text, bool& moved, IsDropped&& is_dropped) {
  size_t first_end = 0;
  UChar32 first = 0;
  U8_NEXT(text.data(), first_end, text.size(), first);
  moved |= is_dropped(first);
  return change_each(text, [&](UChar32 c, std::string& out) {
    if (!is_dropped(c)) append_character(out, c);
  });
}

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  out.reserve(text.size() + text.size() / 2);
  for (size_t at = text.find(from); at != text.npos; at = text.find(from)) {
    out.append(text.substr(0, at)).append(to);
    text.remove_prefix(at + from.size());
  }
  return out.append(text);
}

/// Replaces each run of two or more spaces.
std::string squeeze(std::string_view text, std::string_view to) {
  std::string out;
  for (size_t at = text.find("  "); at != text.npos; at = text.find("  ")) {
    out.append(text.substr(0, at)).append(to);
    text.remove_prefix(std::min(text.find_first_not_of(' ', at), text.size()));
  }
  return out.append(text);
}

/// Applies a step to a text that is not empty, as normalize_part() says.
std::string apply(const NormalizationStep& step, std::string_view text, bool continues,
                  bool& moved) {
  const auto without_start = [&](std::string_view rest) {
    if (continues) return text;
    moved |= rest.size() < text.size();
    return rest;
  };
  switch (step.kind) {
    case Normalization::nfc:
      return is_composed(text) ? std::string(text) : compose(text);
    case Normalization::nfd:
      return normal(unicode_9_nfd(), text);
    case Normalization::nfkc:
      return normal(unicode_9_nfkc(), text);
    case Normalization::nfkd:
      return normal(unicode_9_nfkd(), text);
    case Normalization::nmt:
      return change_each(drop(text, moved, is_dropped_by_nmt), [](UChar32 c, std::string& out) {
        append_character(out, is_space_of_nmt(c) ? ' ' : c);
      });
    case Normalization::lowercase:
      return change_each(text, append_lower);
    case Normalization::strip_accents:
      return drop(text, moved, is_mark_of_unicode_9);
    case Normalization::prepend:
      return continues ? std::string(text) : std::string(kSpaceMark).append(text);
    case Normalization::replace: {
      // A single character in the place of the first one still is the start of the text.
      const bool is_short = first_character_end(step.from) == step.from.size() && !step.to.empty();
      moved |= !is_short && text.substr(0, step.from.size()) == step.from;
      return replace_all(text, step.from, step.to);
    }
    case Normalization::precompiled:
      return step.rules->apply(text);
    case Normalization::squeeze:
      return squeeze(text, step.to);
    case Normalization::trim: {
      const size_t begin = std::min(text.find_first_not_of(' '), text.size());
      const std::string_view rest = without_start(text.substr(begin));
      return std::string(rest.substr(0, rest.find_last_not_of(' ') + 1));
    }
    case Normalization::double_mark: {
      const bool doubles = !continues && text.substr(0, kSpaceMark.size()) == kSpaceMark;
      return std::string(doubles ? kSpaceMark : "").append(text);
    }
    case Normalization::strip_left:
      return std::string(without_start(without_leading_space(text)));
    case Normalization::strip_right:
      return std::string(without_trailing_space(text));
  }
  return {};
}

}  // namespace

bool NormalizationStep::operator==(const NormalizationStep& other) const {
  const bool same_rules =
      rules == other.rules || (rules && other.rules && rules->bytes() == other.rules->bytes());
  return kind == other.kind && from == other.from && to == other.to && same_rules;
}

std::string_view to_string(Normalization kind) {
  return std::ranges::find(kNames, kind, &Name::kind)->name;
}

Normalization normalization_of(std::string_view name, const std::string& where) {
  const auto* found = std::ranges::find(kNames, name, &Name::name);
  require(found != std::end(kNames), "{} has a step {}, which is unknown", where, quote(name));
  return found->kind;
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
      append_normal(unicode_9_nfc(), word, composed);
    }
    begin = end;
  }
  return composed;
}

std::string normalize(std::string_view text, const Normalizer& steps) {
  std::string result(text);
  normalize_part(result, steps, /*continues=*/false);
  return result;
}

bool normalize_part(std::string& text, const Normalizer& steps, bool continues) {
  constexpr size_t kMostGrowth = 64;  // NFKC makes a character 11 times as long
  const size_t size = text.size();
  bool moved = false;
  for (const NormalizationStep& step : steps) {
    if (!text.empty()) text = apply(step, text, continues, moved);
    require(text.size() <= kMostGrowth * (size + 1),
            "the normalizer of the tokenizer makes {} bytes of a text of {}, but at most {} times "
            "as many are allowed: does it repeat itself?",
            text.size(), size, kMostGrowth);
  }
  return moved;
}

bool knows_start(const Normalizer& steps) {
  bool several = false;  // whether a character may have become several
  for (const NormalizationStep& step : steps) {
    switch (step.kind) {
      case Normalization::nfkc:
      case Normalization::nfkd:
      case Normalization::precompiled:
        several = true;
        break;
      case Normalization::nmt:
      case Normalization::strip_accents:
      case Normalization::replace:
      case Normalization::trim:
      case Normalization::strip_left:
        if (several && step != Normalization::replace) return false;
        break;
      case Normalization::squeeze:  // what it makes is a space or a mark
        if (step.to != " " && step.to != kSpaceMark) return false;
        break;
      default:
        break;
    }
  }
  return true;
}

bool may_cut_before_space(const Normalizer& steps, char last) {
  return std::all_of(steps.begin(), steps.end(), [&](const NormalizationStep& step) {
    const bool has_spaces = (step.from + step.to).find_first_of(" \u2581") != std::string::npos;
    switch (step.kind) {
      case Normalization::prepend:
      case Normalization::trim:
      case Normalization::double_mark:
      case Normalization::strip_left:
        return false;
      case Normalization::replace:
        return (!has_spaces && !step.to.empty()) || (step.from == " " && step.to == kSpaceMark);
      case Normalization::squeeze:
        return step.to == " " || step.to == kSpaceMark;
      case Normalization::precompiled:
        return step.rules->facts().spaces.find(' ') != std::string::npos &&
               step.rules->apply({&last, 1}) == std::string(1, last);
      default:
        return true;
    }
  });
}

}  // namespace tessera
