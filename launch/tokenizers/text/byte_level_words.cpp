#include "launch/tokenizers/text/byte_level_words.h"

#include <unicode/uchar.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>

#include "launch/tokenizers/text/bert_text.h"

namespace tessera {
namespace {

enum class CharacterClass : uint8_t { letter, number, space, other };

/// Letters and numbers of Unicode 15.1 and 16 that an older ICU lacks.
struct CodePoints {
  UChar32 first;
  UChar32 last;
  CharacterClass what;
};
constexpr auto kLetter = CharacterClass::letter;
constexpr auto kNumber = CharacterClass::number;
constexpr CodePoints kNewerCharacters[] = {
    {0x1C89, 0x1C8A, kLetter},   {0xA7CB, 0xA7CD, kLetter},   {0xA7DA, 0xA7DC, kLetter},
    {0x105C0, 0x105F3, kLetter}, {0x10D40, 0x10D49, kNumber}, {0x10D4A, 0x10D65, kLetter},
    {0x10D6F, 0x10D85, kLetter}, {0x10EC2, 0x10EC4, kLetter}, {0x11380, 0x11389, kLetter},
    {0x1138B, 0x1138B, kLetter}, {0x1138E, 0x1138E, kLetter}, {0x11390, 0x113B5, kLetter},
    {0x113B7, 0x113B7, kLetter}, {0x113D1, 0x113D1, kLetter}, {0x113D3, 0x113D3, kLetter},
    {0x116D0, 0x116E3, kNumber}, {0x11BC0, 0x11BE0, kLetter}, {0x11BF0, 0x11BF9, kNumber},
    {0x13460, 0x143FA, kLetter}, {0x16100, 0x1611D, kLetter}, {0x16130, 0x16139, kNumber},
    {0x16D40, 0x16D6C, kLetter}, {0x16D70, 0x16D79, kNumber}, {0x18CFF, 0x18CFF, kLetter},
    {0x1CCF0, 0x1CCF9, kNumber}, {0x1E5D0, 0x1E5ED, kLetter}, {0x1E5F0, 0x1E5F0, kLetter},
    {0x1E5F1, 0x1E5FA, kNumber}, {0x2EBF0, 0x2EE5D, kLetter}};

CharacterClass class_of_unassigned(UChar32 c) {
  const auto* range =
      std::lower_bound(std::begin(kNewerCharacters), std::end(kNewerCharacters), c,
                       [](const CodePoints& item, UChar32 code) { return item.last < code; });
  const bool found = range != std::end(kNewerCharacters) && range->first <= c;
  return found ? range->what : CharacterClass::other;
}

CharacterClass ascii_class(unsigned char c) {
  if (c == ' ' || (0x09 <= c && c <= 0x0D)) return CharacterClass::space;
  if ('0' <= c && c <= '9') return CharacterClass::number;
  const auto lower = static_cast<unsigned char>(c | 0x20);
  return 'a' <= lower && lower <= 'z' ? CharacterClass::letter : CharacterClass::other;
}

constexpr size_t kAscii = 0x80;

const std::array<CharacterClass, kAscii> kAsciiClasses = [] {
  std::array<CharacterClass, kAscii> classes{};
  for (size_t c = 0; c < kAscii; ++c) classes[c] = ascii_class(static_cast<unsigned char>(c));
  return classes;
}();

CharacterClass class_of(UChar32 c) {
  if (c < 0) return CharacterClass::other;  // invalid UTF-8
  const uint32_t category = U_MASK(u_charType(c));
  if ((category & U_GC_CN_MASK) != 0) return class_of_unassigned(c);
  UVersionInfo age;
  u_charAge(c, age);
  if (age[0] > 16) return CharacterClass::other;
  if ((category & U_GC_L_MASK) != 0) return CharacterClass::letter;
  if ((category & U_GC_N_MASK) != 0) return CharacterClass::number;
  return u_isUWhiteSpace(c) != 0 ? CharacterClass::space : CharacterClass::other;
}

/// Returns the class of the character at `at` and advances.
inline CharacterClass next_class(std::string_view text, size_t& at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  if (lead < kAscii) {
    ++at;
    return kAsciiClasses[lead];
  }
  UChar32 c = 0;
  U8_NEXT(text.data(), at, text.size(), c);
  return class_of(c);
}

/// Returns the end of the run of characters of this class at `at`.
size_t run_end(std::string_view text, size_t at, CharacterClass what) {
  while (at < text.size()) {
    size_t next = at;
    if (next_class(text, next) != what) break;
    at = next;
  }
  return at;
}

/// Returns the length of the contraction suffix at `at`, after an apostrophe: s, t, re, ve, m, ll
/// or d. Returns 0 if there is none.
size_t contraction_length(std::string_view text, size_t at) {
  if (at >= text.size()) return 0;
  const char c = text[at];
  if (c == 's' || c == 't' || c == 'm' || c == 'd') return 1;
  if (at + 1 >= text.size()) return 0;
  const char d = text[at + 1];
  return ((c == 'r' || c == 'v') && d == 'e') || (c == 'l' && d == 'l') ? 2 : 0;
}

/// Returns the end of a white-space word whose first character ends at `end`. The last space before
/// other text is not part of it, unless it is the only one.
size_t space_end(std::string_view text, size_t end) {
  size_t last = end;  // the run without its last character
  bool several = false;
  while (end < text.size()) {
    size_t next = end;
    if (next_class(text, next) != CharacterClass::space) return several ? last : end;
    last = end;
    end = next;
    several = true;
  }
  return end;
}

/// A character, as far as `text` determines it.
struct NextCharacter {
  CharacterClass what = CharacterClass::other;
  size_t end = 0;
  bool known = false;  ///< independent of what follows the text
};

NextCharacter next_character(std::string_view text, size_t at) {
  if (at >= text.size()) return {};
  const auto lead = static_cast<unsigned char>(text[at]);
  size_t end = at;
  UChar32 c = 0;
  U8_NEXT(text.data(), end, text.size(), c);
  const bool may_continue = c < 0 && end == text.size() && 0xC2 <= lead && lead <= 0xF4;
  return {lead < kAscii ? kAsciiClasses[lead] : class_of(c), end, !may_continue};
}

/// Returns the class of the character before `at`, which is above 0.
CharacterClass class_before(std::string_view text, size_t at) {
  size_t begin = last_character_start(text.substr(0, at));
  return next_class(text.substr(0, at), begin);
}

/// Returns whether a word starts with the apostrophe at `at`.
bool apostrophe_starts_word(std::string_view text, size_t at) {
  if (at == 0) return true;
  return text[at - 1] != ' ' && class_before(text, at) != CharacterClass::other;
}

bool contraction_ends_at(std::string_view text, size_t at) {
  for (size_t length = 1; length <= 2 && length < at; ++length) {
    const size_t apostrophe = at - length - 1;
    if (text[apostrophe] == '\'' && contraction_length(text.substr(0, at), at - length) == length &&
        apostrophe_starts_word(text, apostrophe)) {
      return true;
    }
  }
  return false;
}

/// Returns whether the text at `at`, after an apostrophe, is or may become a contraction.
bool may_be_contraction(std::string_view text, size_t at) {
  const bool half =
      at + 1 == text.size() && (text[at] == 'r' || text[at] == 'v' || text[at] == 'l');
  return half || contraction_length(text, at) > 0;
}

/// Returns whether a word ends at `at`, which is above 0, whatever follows `text`.
bool word_ends_at(std::string_view text, size_t at) {
  if (contraction_ends_at(text, at)) return true;
  const NextCharacter next = next_character(text, at);
  if (!next.known) return false;
  const CharacterClass last = class_before(text, at);
  if (last == CharacterClass::space && next.what == CharacterClass::space) {
    const NextCharacter after = next_character(text, next.end);
    return after.known && after.what != CharacterClass::space;
  }
  if (last == CharacterClass::space) return text[at - 1] != ' ';
  if (last == next.what) return false;
  return text[at - 1] != '\'' || !may_be_contraction(text, at) ||
         !apostrophe_starts_word(text, at - 1);
}

bool is_line_end(char c) { return c == '\r' || c == '\n'; }

/// Returns the length of a contraction suffix in any case; a long s counts as an s.
size_t any_case_contraction_length(std::string_view text, size_t at) {
  constexpr std::string_view kLongS = "\u017F";
  if (text.substr(at, kLongS.size()) == kLongS) return kLongS.size();
  std::array<char, 2> lower{};
  const size_t size = std::min(lower.size(), text.size() - at);
  for (size_t i = 0; i < size; ++i) {
    const char c = text[at + i];
    lower[i] = 'A' <= c && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
  }
  return contraction_length({lower.data(), size}, 0);
}

/// Returns the end of white space that starts at `begin` and ends with its last line end, or
/// `begin`.
size_t line_end(std::string_view text, size_t begin) {
  size_t end = begin;
  for (size_t at = begin; at < text.size();) {
    const char c = text[at];
    if (next_class(text, at) != CharacterClass::space) break;
    if (is_line_end(c)) end = at;
  }
  return end;
}

/// Returns the end of at most `most` numbers at `at`.
size_t digits_end(std::string_view text, size_t at, int most) {
  for (int i = 0; i < most && at < text.size(); ++i) {
    size_t next = at;
    if (next_class(text, next) != CharacterClass::number) break;
    at = next;
  }
  return at;
}

}  // namespace

size_t cl100k_word_end(std::string_view text, size_t begin, int digits) {
  const char first = text[begin];
  if (first == '\'') {
    const size_t length = any_case_contraction_length(text, begin + 1);
    if (length > 0) return begin + 1 + length;
  }
  size_t at = begin;
  const CharacterClass what = next_class(text, at);
  if (what == CharacterClass::letter) return run_end(text, at, what);
  if (what == CharacterClass::number) return digits_end(text, begin, digits);
  size_t after = at;
  const bool is_last = at == text.size();
  const CharacterClass next = is_last ? CharacterClass::space : next_class(text, after);
  if (next == CharacterClass::letter && !is_line_end(first)) return run_end(text, after, next);
  if (what == CharacterClass::other || (first == ' ' && next == CharacterClass::other)) {
    size_t end = run_end(text, at, CharacterClass::other);
    while (end < text.size() && is_line_end(text[end])) ++end;
    return end;
  }
  const size_t line = line_end(text, begin);
  return line > begin ? line : space_end(text, at);
}

size_t byte_level_word_end(std::string_view text, size_t begin) {
  if (text[begin] == '\'') {
    const size_t length = contraction_length(text, begin + 1);
    if (length > 0) return begin + 1 + length;
  }
  size_t at = begin;
  const CharacterClass what = next_class(text, at);
  if (text[begin] == ' ' && at < text.size()) {
    size_t after = at;
    const CharacterClass next = next_class(text, after);
    if (next != CharacterClass::space) return run_end(text, after, next);
  }
  if (what == CharacterClass::space) return space_end(text, at);
  return run_end(text, at, what);
}

size_t last_byte_level_word_end(std::string_view text, bool before_space) {
  for (size_t at = text.size(); at > 0; at = last_character_start(text.substr(0, at))) {
    const bool fits = !before_space || (at < text.size() && text[at] == ' ');
    if (fits && word_ends_at(text, at)) return at;
  }
  return 0;
}

std::string_view without_trailing_space(std::string_view text) {
  while (!text.empty() && class_before(text, text.size()) == CharacterClass::space) {
    text = text.substr(0, last_character_start(text));
  }
  return text;
}

std::string_view without_leading_space(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    if (next_class(text, at) != CharacterClass::space) return text.substr(begin);
  }
  return {};
}

}  // namespace tessera
