#include "launch/tokenizers/text/byte_level_words.h"

#include <unicode/uchar.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "launch/tokenizers/text/bert_text.h"
#include "launch/tokenizers/text/unicode.h"

namespace tessera {
namespace {

enum class CharacterClass : uint8_t { letter, number, space, other };

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
  const uint32_t category = categories(c);
  if ((category & U_GC_L_MASK) != 0) return CharacterClass::letter;
  if ((category & U_GC_N_MASK) != 0) return CharacterClass::number;
  return c >= 0 && u_isUWhiteSpace(c) != 0 ? CharacterClass::space : CharacterClass::other;
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

/// Returns the end of a word of cl100k_base that is no letters: `digits` numbers, other characters
/// after a space, with `tail` behind them, or white space.
size_t other_word_end(std::string_view text, size_t begin, int digits, std::string_view tail) {
  size_t at = begin;
  const CharacterClass what = next_class(text, at);
  if (what == CharacterClass::number) return digits_end(text, begin, digits);
  size_t after = at;
  const bool follows_other = at < text.size() && next_class(text, after) == CharacterClass::other;
  if (what == CharacterClass::other || (text[begin] == ' ' && follows_other)) {
    const size_t end = text.find_first_not_of(tail, run_end(text, at, CharacterClass::other));
    return std::min(end, text.size());
  }
  const size_t line = line_end(text, begin);
  return line > begin ? line : space_end(text, at);
}

/// Returns the end of the word that starts at `begin` by the rule of cl100k_base, with at most
/// `digits` in a number.
size_t cl100k_word_end(std::string_view text, size_t begin, int digits) {
  const char first = text[begin];
  if (first == '\'') {
    const size_t length = any_case_contraction_length(text, begin + 1);
    if (length > 0) return begin + 1 + length;
  }
  size_t at = begin;
  const CharacterClass what = next_class(text, at);
  if (what == CharacterClass::letter) return run_end(text, at, what);
  size_t after = at;
  const bool is_last = at == text.size();
  const CharacterClass next = is_last ? CharacterClass::space : next_class(text, after);
  if (next == CharacterClass::letter && what != CharacterClass::number && !is_line_end(first)) {
    return run_end(text, after, next);
  }
  return other_word_end(text, begin, digits, "\r\n");
}

/// The categories that o200k_base lets begin a word, and continue it.
constexpr uint32_t kUnicase = U_GC_LM_MASK | U_GC_LO_MASK | U_GC_M_MASK;
constexpr uint32_t kUpper = U_GC_LU_MASK | U_GC_LT_MASK | kUnicase;
constexpr uint32_t kLower = U_GC_LL_MASK | kUnicase;

uint32_t next_categories(std::string_view text, size_t& at) {
  UChar32 c = 0;
  U8_NEXT(text.data(), at, text.size(), c);
  return categories(c);
}

size_t run_end(std::string_view text, size_t at, uint32_t allowed) {
  for (size_t next = at; at < text.size(); at = next) {
    if ((next_categories(text, next) & allowed) == 0) break;
  }
  return at;
}

/// Returns the end of kUpper* kLower+ at `begin`, or `begin`.
size_t lower_case_word_end(std::string_view text, size_t begin) {
  const size_t upper = run_end(text, begin, kUpper), lower = run_end(text, upper, kLower);
  if (lower > upper) return lower;
  for (size_t end = upper; end > begin;) {  // the last character that may be of either
    size_t at = last_character_start(text.substr(0, end));
    const size_t start = at;
    if ((next_categories(text, at) & kUnicase) != 0) return end;
    end = start;
  }
  return begin;
}

/// The rule of o200k_base.
size_t o200k_word_end(std::string_view text, size_t begin) {
  size_t second = begin;
  const CharacterClass what = next_class(text, second);
  const bool is_prefix =
      what != CharacterClass::letter && what != CharacterClass::number && !is_line_end(text[begin]);
  const auto with_contraction = [&](size_t end) {
    const bool follows = end < text.size() && text[end] == '\'';
    const size_t length = follows ? any_case_contraction_length(text, end + 1) : 0;
    return length > 0 ? end + 1 + length : end;
  };
  for (const size_t start : {is_prefix ? second : begin, begin}) {
    const size_t end = lower_case_word_end(text, start);
    if (end > start) return with_contraction(end);
  }
  for (const size_t start : {is_prefix ? second : begin, begin}) {
    const size_t upper = run_end(text, start, kUpper);
    if (upper > start) return with_contraction(run_end(text, upper, kLower));
  }
  return other_word_end(text, begin, 3, "\r\n/");
}

bool is_ascii_letter(char c) {
  const char lower = static_cast<char>(c | 0x20);
  return 'a' <= lower && lower <= 'z';
}

bool is_ascii_punctuation(char c) {
  return '!' <= c && c <= '~' && !is_ascii_letter(c) && !('0' <= c && c <= '9');
}

/// Returns the end of the match of DeepSeek's rule at `begin`, or `begin` if there is none.
size_t deepseek_match_end(std::string_view text, size_t begin) {
  constexpr uint32_t kMarked = U_GC_L_MASK | U_GC_M_MASK, kSign = U_GC_P_MASK | U_GC_S_MASK;
  const auto letters_end = [&](size_t from) {
    while (from < text.size() && is_ascii_letter(text[from])) ++from;
    return from;
  };
  const char first = text[begin];
  if (is_ascii_punctuation(first)) {
    const size_t end = letters_end(begin + 1);
    if (end > begin + 1) return end;
  }
  size_t second = begin;
  const uint32_t category = next_categories(text, second);
  if ((category & (U_GC_L_MASK | kSign)) == 0 && !is_line_end(first)) {
    const size_t end = run_end(text, second, kMarked);
    if (end > second) return end;
  }
  const size_t letters = run_end(text, begin, kMarked);
  if (letters > begin) return letters;
  const size_t signs = begin + (first == ' ' ? 1 : 0);
  size_t end = run_end(text, signs, kSign);
  if (end > signs) {
    while (end < text.size() && is_line_end(text[end])) ++end;
    return end;
  }
  const size_t line = line_end(text, begin);
  if (line > begin) return line;
  size_t at = begin;
  return next_class(text, at) == CharacterClass::space ? space_end(text, at) : begin;
}

/// Returns the end of the characters at `begin` for which `holds`, at most `most`, or else of those
/// for which it does not.
template <typename Holds>
size_t isolated_end(std::string_view text, size_t begin, int most, Holds&& holds) {
  size_t at = begin;
  const bool found = holds(text, at);
  for (int count = 1; at < text.size() && !(found && count == most); ++count) {
    size_t next = at;
    if (holds(text, next) != found) break;
    at = next;
  }
  return at;
}

bool takes_number(std::string_view text, size_t& at) {
  return next_class(text, at) == CharacterClass::number;
}

/// Chinese and Japanese characters, as DeepSeek-V3's rule has them.
bool takes_cjk(std::string_view text, size_t& at) {
  UChar32 c = 0;
  U8_NEXT(text.data(), at, text.size(), c);
  return (0x4E00 <= c && c <= 0x9FA5) || (0x3040 <= c && c <= 0x30FF);
}

}  // namespace

size_t word_end(WordRule rule, std::string_view text, size_t begin) {
  constexpr int kAny = -1;
  switch (rule) {
    case WordRule::gpt2:
      return byte_level_word_end(text, begin);
    case WordRule::qwen2:
      return cl100k_word_end(text, begin, 1);
    case WordRule::llama3:
      return cl100k_word_end(text, begin, 3);
    case WordRule::o200k:
      return o200k_word_end(text, begin);
    case WordRule::deepseek3: {
      size_t end = deepseek_match_end(text, begin);
      if (end > begin) return end;
      do {  // what is between the matches
        (void)next_class(text, end);
      } while (end < text.size() && deepseek_match_end(text, end) == end);
      return end;
    }
    case WordRule::digit:
      return isolated_end(text, begin, 1, takes_number);
    case WordRule::digits:
      return isolated_end(text, begin, kAny, takes_number);
    case WordRule::digits3:
      return isolated_end(text, begin, 3, takes_number);
    case WordRule::cjk:
      return isolated_end(text, begin, kAny, takes_cjk);
  }
  return text.size();
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

std::string_view until_space(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    if (next_class(text, at) == CharacterClass::space) return text.substr(0, begin);
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
