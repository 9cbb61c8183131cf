#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

// Splits text as GPT-2's tokenizer does before it applies a vocabulary (Radford et al. 2019,
// https://github.com/openai/gpt-2/blob/master/src/encoder.py). Words are the successive matches of
//
//     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// which cover every byte. Later tokenizers use other rules, or several: each splits the words of
// the one before. Character classes are those of unicode.h. Invalid UTF-8 is neither letter, number
// nor white space, like U+FFFD.

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

/// How text is split into words. huggingface_bpe.cpp has the regular expressions.
enum class WordRule : uint8_t {
  gpt2,       ///< GPT-2's
  qwen2,      ///< cl100k_base of https://github.com/openai/tiktoken with \p{N}
  llama3,     ///< cl100k_base with \p{N}{1,3}
  o200k,      ///< GPT-4o's o200k_base
  deepseek3,  ///< the last one of DeepSeek-V3
  digit,      ///< each number alone
  digits,     ///< runs of numbers
  digits3,    ///< runs of at most three numbers
  cjk,        ///< runs of Chinese and Japanese characters
};

/// Returns the end of the word that starts at `begin`, as above.
size_t word_end(WordRule rule, std::string_view text, size_t begin);

/// Calls `on_word(std::string_view)` with each word of `text` by these rules.
template <typename OnWord>
void for_each_word(std::span<const WordRule> rules, std::string_view text, OnWord&& on_word) {
  if (rules.empty()) return on_word(text);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = word_end(rules.front(), text, begin);
    for_each_word(rules.subspan(1), text.substr(begin, end - begin), on_word);
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
/// Returns `text` up to its first white space.
std::string_view until_space(std::string_view text);

}  // namespace tessera
