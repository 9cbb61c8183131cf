#pragma once

#include <cstddef>
#include <string_view>

// Text as GPT-2's tokenizer sees it before any vocabulary (Radford et al. 2019,
// https://github.com/openai/gpt-2/blob/master/src/encoder.py): its words are the matches of
//
//     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// one after the other, which leave out no byte. Characters' classes are those of Unicode 16, as in
// the Python package `tokenizers`. A byte that is not UTF-8 is neither letter, number nor white
// space, as U+FFFD is.

namespace tessera {

/// The end of the word that starts at `begin`, which must be the start of `text` or the end of a
/// word, and less than text.size(). All that follows in `text` is looked at where it matters.
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

/// The largest n such that, whatever follows `text`, a word ends at n; 0 if there is none. Looks at
/// the end of `text` first, and takes a part of a character there for anything. With
/// `before_space`, a space must follow at n, too.
size_t last_byte_level_word_end(std::string_view text, bool before_space);

/// Without the white space at its end.
std::string_view without_trailing_space(std::string_view text);

}  // namespace tessera
