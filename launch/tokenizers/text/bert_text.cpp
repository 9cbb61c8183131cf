#include "launch/tokenizers/text/bert_text.h"

#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>
#include <unicode/utf8.h>

#include <algorithm>

#include "core/error.h"
#include "launch/tokenizers/text/unicode.h"

namespace tessera {
namespace {

constexpr UChar32 kReplacement = 0xFFFD;

/// Returns the character at `at` and advances; kReplacement for invalid UTF-8.
UChar32 take_character(std::string_view text, size_t& at) {
  UChar32 c = 0;
  U8_NEXT_OR_FFFD(text.data(), at, text.size(), c);
  return c;
}

bool is_ideograph(UChar32 c) {
  return (0x4E00 <= c && c <= 0x9FFF) || (0x3400 <= c && c <= 0x4DBF) ||
         (0x20000 <= c && c <= 0x2A6DF) || (0x2A700 <= c && c <= 0x2B73F) ||
         (0x2B740 <= c && c <= 0x2B81F) || (0x2B920 <= c && c <= 0x2CEAF) ||
         (0xF900 <= c && c <= 0xFAFF) || (0x2F800 <= c && c <= 0x2FA1F);
}

bool is_in_unicode_8(UChar32 c) {
  UVersionInfo age;
  u_charAge(c, age);
  return age[0] <= 8;
}

/// Characters that are punctuation in Unicode 8, but not in later versions.
bool was_punctuation(UChar32 c) { return c == 0x166D || c == 0x111C9; }

/// Characters whose nonspacing-mark property differs between Unicode 8 and later versions.
bool was_accent(UChar32 c) { return c == 0x1734 || c == 0x1171E; }
bool was_no_accent(UChar32 c) {
  return c == 0x1885 || c == 0x1886 || c == 0xA9BD || was_punctuation(c);
}

/// A nonspacing mark.
bool is_accent(UChar32 c) {
  if (u_charType(c) != U_NON_SPACING_MARK) return was_accent(c);
  return is_in_unicode_8(c) && !was_no_accent(c);
}

/// How BERT's tokenizer classifies a character.
enum class BertClass : uint8_t {
  word,         ///< part of a word
  space,        ///< ends a word
  dropped,      ///< a control character: ignored
  ideograph,    ///< Chinese, Japanese or Korean: a word of its own
  punctuation,  ///< a word of its own
};

BertClass ascii_bert_class(UChar32 c) {
  if (c == ' ' || c == '\t' || c == '\n' || c == '\r') return BertClass::space;
  if (c < ' ' || c == 0x7F) return BertClass::dropped;
  const bool letter_or_digit =
      ('0' <= c && c <= '9') || ('A' <= c && c <= 'Z') || ('a' <= c && c <= 'z');
  return letter_or_digit ? BertClass::word : BertClass::punctuation;
}

/// Follows the Python package `tokenizers`, whose tables are those of Unicode 8: newer characters
/// are part of a word.
BertClass bert_class_of(UChar32 c) {
  if (c < 0x80) return ascii_bert_class(c);
  if (is_ideograph(c)) return BertClass::ideograph;
  if (c == kReplacement) return BertClass::dropped;
  const uint32_t category = U_MASK(u_charType(c));
  constexpr uint32_t kOther = U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK;
  if ((category & kOther) != 0 && is_in_unicode_8(c)) return BertClass::dropped;
  if (u_isUWhiteSpace(c) != 0) return BertClass::space;
  const bool punctuation = (category & U_GC_P_MASK) != 0 && is_in_unicode_8(c);
  return punctuation || was_punctuation(c) ? BertClass::punctuation : BertClass::word;
}

/// Removes dropped characters; turns white space into ' ' and surrounds ideographs with ' '.
icu::UnicodeString cleaned(std::string_view text) {
  icu::UnicodeString clean(static_cast<int32_t>(text.size()), 0, 0);
  for (size_t at = 0; at < text.size();) {
    const UChar32 c = take_character(text, at);
    switch (bert_class_of(c)) {
      case BertClass::dropped:
        break;
      case BertClass::space:
        clean.append(u' ');
        break;
      case BertClass::ideograph:
        clean.append(u' ').append(c).append(u' ');
        break;
      case BertClass::word:
      case BertClass::punctuation:
        clean.append(c);
        break;
    }
  }
  return clean;
}

template <typename Body>
void for_each_character(const icu::UnicodeString& text, Body&& body) {
  for (int32_t at = 0; at < text.length(); at = text.moveIndex32(at, 1)) body(text.char32At(at));
}

icu::UnicodeString without_accents(const icu::UnicodeString& text) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::UnicodeString decomposed = unicode_9_nfd().normalize(text, status);
  require(U_SUCCESS(status) != 0, "ICU cannot normalize a text: {}", u_errorName(status));
  icu::UnicodeString plain(decomposed.length(), 0, 0);
  for_each_character(decomposed, [&](UChar32 c) {
    if (!is_accent(c)) plain.append(c);
  });
  return plain;
}

/// Maps characters one by one, ignoring context such as a final sigma.
icu::UnicodeString in_lower_case(const icu::UnicodeString& text) {
  icu::UnicodeString lower(text.length(), 0, 0);
  for_each_character(text, [&](UChar32 c) {
    constexpr UChar32 kDottedI = 0x130;  // the only character that becomes two
    if (c == kDottedI) {
      lower.append(u"i\u0307");
    } else {
      lower.append(lower_case(c));
    }
  });
  return lower;
}

/// A fast path of for_each_bert_word() for ASCII, which most text is and which needs no ICU.
void for_each_ascii_word(std::string_view text, bool lower_case, const OnWord& on_word) {
  std::string word;
  const auto end_word = [&] {
    if (!word.empty()) on_word(word);
    word.clear();
  };
  for (const char c : text) {
    const BertClass kind = ascii_bert_class(c);
    if (kind == BertClass::dropped) continue;
    const bool alone = kind == BertClass::punctuation;
    if (alone || kind == BertClass::space) end_word();
    const bool lower = lower_case && 'A' <= c && c <= 'Z';
    if (kind != BertClass::space) word += static_cast<char>(lower ? c - 'A' + 'a' : c);
    if (alone) end_word();
  }
  end_word();
}

}  // namespace

void for_each_bert_word(std::string_view text, BertCasing casing, const OnWord& on_word) {
  if (is_ascii(text)) {
    for_each_ascii_word(text, casing.lower_case, on_word);
    return;
  }
  constexpr size_t kMost = size_t{1} << 30;  // ICU uses 32-bit sizes, and ideographs expand
  require(text.size() <= kMost,
          "a text of {} bytes is too long to tokenize at once: the limit is {}", text.size(),
          kMost);
  icu::UnicodeString clean = cleaned(text);
  if (casing.strip_accents) clean = without_accents(clean);
  if (casing.lower_case) clean = in_lower_case(clean);
  icu::UnicodeString word;
  std::string bytes;
  const auto end_word = [&] {
    if (word.isEmpty()) return;
    bytes.clear();
    word.toUTF8String(bytes);
    on_word(bytes);
    word.remove();
  };
  for_each_character(clean, [&](UChar32 c) {
    const BertClass kind = bert_class_of(c);
    const bool alone = kind == BertClass::punctuation;
    if (alone || kind == BertClass::space) end_word();
    if (kind != BertClass::space) word.append(c);
    if (alone) end_word();
  });
  end_word();
}

size_t last_bert_word_end(std::string_view text) {
  for (size_t end = text.size(); end > 0;) {
    const size_t start = last_character_start(text.substr(0, end));
    size_t at = start;
    const BertClass kind = bert_class_of(take_character(text.substr(0, end), at));
    if (kind != BertClass::word && kind != BertClass::dropped) return end;
    end = start;
  }
  return 0;
}

size_t last_character_start(std::string_view text) {
  if (text.empty()) return 0;
  constexpr size_t kLongestCharacter = 4;
  const size_t begin = text.size() - std::min(text.size(), kLongestCharacter);
  auto at = static_cast<int32_t>(text.size() - begin);
  UChar32 c = 0;
  U8_PREV(text.data() + begin, 0, at, c);
  return begin + static_cast<size_t>(at);
}

size_t first_character_end(std::string_view text) {
  size_t end = 0;
  U8_FWD_1(text.data(), end, text.size());
  return end;
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

int64_t count_invalid_utf8(std::string_view text) {
  int64_t count = 0;
  for (size_t at = 0; at < text.size();) {
    if (static_cast<signed char>(text[at]) >= 0) {
      ++at;
      continue;
    }
    UChar32 c = 0;
    U8_NEXT(text.data(), at, text.size(), c);
    if (c < 0) ++count;
  }
  return count;
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    UChar32 c = 0;
    U8_NEXT(text.data(), at, text.size(), c);
    valid += c < 0 ? "\xEF\xBF\xBD" : text.substr(begin, at - begin);
  }
  return valid;
}

}  // namespace tessera
