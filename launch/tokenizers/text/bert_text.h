#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

// Splits text as BERT's tokenizers do before they apply a vocabulary (Devlin et al. 2018, and their
// published code): https://github.com/google-research/bert/blob/master/tokenization.py

namespace tessera {

/// Receives a word: valid UTF-8, not empty, valid only during the call.
using OnWord = std::function<void(std::string_view word)>;

/// Which properties of letters are removed.
struct BertCasing {
  bool lower_case = true;     ///< lower-case letters
  bool strip_accents = true;  ///< NFD without nonspacing marks

  bool operator==(const BertCasing&) const = default;
};

/// BERT's two variants: remove both, or neither.
inline constexpr BertCasing kUncased = {true, true};
inline constexpr BertCasing kCased = {false, false};

/// Calls `on_word` for each word of `text` in order. Drops control characters and invalid UTF-8,
/// removes accents and case according to `casing`, then splits at white space; punctuation
/// characters and ideographs are words of their own. Accepts at most 2^30 bytes if any is not
/// ASCII.
void for_each_bert_word(std::string_view text, BertCasing casing, const OnWord& on_word);

/// Calls `on_chunk(std::string_view)` with each part of `text` between spaces, tabs and line ends.
/// These always end a word, so the words of the parts are those of the text.
template <typename OnChunk>
void for_each_chunk(std::string_view text, OnChunk&& on_chunk) {
  const auto is_space = [](char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; };
  size_t begin = 0;
  for (size_t at = 0; at <= text.size(); ++at) {
    if (at < text.size() && !is_space(text[at])) continue;
    if (at > begin) on_chunk(text.substr(begin, at - begin));
    begin = at + 1;
  }
}

/// Returns the end of the last character of `text` after which a word ends whatever follows, or 0
/// if there is none. Scans backward.
size_t last_bert_word_end(std::string_view text);

/// Returns the start of the last character of `text`, so that the text before it ends with a whole
/// character. Returns 0 if there is only one character.
size_t last_character_start(std::string_view text);

/// Returns the end of the first character of `text`, which is not empty and valid UTF-8.
size_t first_character_end(std::string_view text);

/// Returns whether all bytes of `text` are ASCII.
bool is_ascii(std::string_view text);

/// Returns how many U+FFFD replace invalid UTF-8 in `text`: one per maximal partial sequence, as
/// Unicode recommends and Python does.
int64_t count_invalid_utf8(std::string_view text);

/// Returns `text` with invalid UTF-8 replaced by U+FFFD, as counted above.
std::string replace_invalid_utf8(std::string_view text);

}  // namespace tessera
