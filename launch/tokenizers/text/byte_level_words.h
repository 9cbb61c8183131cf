#pragma once

#include <cstddef>
#include <string_view>

// Splits text as GPT-2's tokenizer does before it applies a vocabulary (Radford et al. 2019,
// https://github.com/openai/gpt-2/blob/master/src/encoder.py). Words are the successive matches of
//
//     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// which cover every byte. Character classes are those of Unicode 16, as in the Python package
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

/// Returns the largest n such that a word ends at n whatever follows `text`; 0 if there is none.
/// Scans backward; an incomplete character at the end may become any character. With
/// `before_space`, a space must also follow at n.
size_t last_byte_level_word_end(std::string_view text, bool before_space);

/// Returns `text` without trailing white space.
std::string_view without_trailing_space(std::string_view text);

}  // namespace tessera
