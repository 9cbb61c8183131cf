#pragma once

#include <unicode/normalizer2.h>
#include <unicode/uchar.h>

#include <cstdint>

// The properties of characters that decide tokens, those of Unicode 16 as in the Python package
// `tokenizers`, with any ICU from 70 (Unicode 14) on.

namespace tessera {

/// The general category as one bit, as U_MASK(u_charType(c)); 0 for a negative `c`, which stands
/// for invalid UTF-8.
uint32_t categories(UChar32 c);

/// As \w of Rust's regular expressions.
bool is_word_character(UChar32 c);

/// The lower case of one character, whatever stands beside it.
UChar32 lower_case(UChar32 c);

/// Throws, saying `what`, if a call of ICU failed.
void require_icu(UErrorCode status, const char* what);

/// Composition as ICU has it, and composition and decomposition that leave characters newer than
/// Unicode 9 alone, as the Python package does.
const icu::Normalizer2& icu_nfc();
const icu::Normalizer2& unicode_9_nfc();
const icu::Normalizer2& unicode_9_nfd();
const icu::Normalizer2& unicode_9_nfkc();
const icu::Normalizer2& unicode_9_nfkd();

/// A combining mark, as of Unicode 9.
bool is_mark_of_unicode_9(UChar32 c);

}  // namespace tessera
