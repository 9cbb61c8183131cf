#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

// Splits text as GPT-2's tokenizer does before it applies a vocabulary (Radford et al. 2019,
// https://github.com/openai/gpt-2/blob/master/src/encoder.py). Words are the successive matches of
//
//     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// which cover every byte. Later tokenizers use another rule (cl100k_base of
// https://github.com/openai/tiktoken), of which Qwen's takes one digit at a time and Llama's three:
//
//     (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*
//     |\s*[\r\n]+|\s+(?!\S)|\s+
//
// Character classes are those of Unicode 16, as in the Python package
// `tokenizers`. Invalid UTF-8 is neither letter, number nor white space, like U+FFFD.

namespace tessera {

/// Returns the end of the word that starts at `begin`, which must be the start of `text` or the end
/// of a word, and less than text.size(). Looks ahead in `text` as far as necessary.
size_t byte_level_word_end(std::string_view text, size_t begin);

/// Calls `on_word(std::string_view)` with each word of `text`.
template <typename OnWord>
void for_each_byte_level_word(std::string_view text, OnWord&& on_word) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = byte_level_word_end(text, begin);
    on_word(text.substr(begin, end - begin));
    begin = end;
  }
}

/// How text is split into words.
enum class WordRule : uint8_t {
  gpt2,    ///< GPT-2's
  qwen2,   ///< cl100k_base with \p{N}
  llama3,  ///< cl100k_base with \p{N}{1,3}
};

/// Returns the end of the word that starts at `begin` by the rule of cl100k_base, with at most
/// `digits` in a number. `begin` is as above.
size_t cl100k_word_end(std::string_view text, size_t begin, int digits);

/// Calls `on_word(std::string_view)` with each word of `text` by this rule.
template <typename OnWord>
void for_each_word(WordRule rule, std::string_view text, OnWord&& on_word) {
  if (rule == WordRule::gpt2) return for_each_byte_level_word(text, on_word);
  const int digits = rule == WordRule::qwen2 ? 1 : 3;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = cl100k_word_end(text, begin, digits);
    on_word(text.substr(begin, end - begin));
    begin = end;
  }
}

/// Returns the largest n such that a word of any rule ends at n whatever precedes and follows
/// `text`, and an ASCII character precedes n and a space or a line end is at n; 0 if there is none.
template <typename MayCut>
size_t last_ascii_word_end(std::string_view text, MayCut&& may_cut) {
  for (size_t at = text.size(); at-- > 1;) {
    const char last = text[at - 1], next = text[at];
    const bool is_letter = (static_cast<unsigned char>(last) | 0x20) >= 'a' &&
                           (static_cast<unsigned char>(last) | 0x20) <= 'z';
    const bool is_other = '!' <= last && last <= '~';
    if ((next == ' ' ? is_other : next == '\n' && is_letter) && may_cut(last, next)) return at;
  }
  return 0;
}

/// Returns the largest n such that a word ends at n whatever follows `text`; 0 if there is none.
/// Scans backward; an incomplete character at the end may become any character. With
/// `before_space`, a space must also follow at n.
size_t last_byte_level_word_end(std::string_view text, bool before_space);

/// Return `text` without trailing or leading white space.
std::string_view without_trailing_space(std::string_view text);
std::string_view without_leading_space(std::string_view text);

}  // namespace tessera
