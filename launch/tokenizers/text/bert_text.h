#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

// Text as BERT's tokenizers see it before any vocabulary (Devlin et al. 2018, and the program that
// they published with it): https://github.com/google-research/bert/blob/master/tokenization.py

namespace tessera {

/// Receives a word, which is valid UTF-8, not empty, and only valid during the call.
using OnWord = std::function<void(std::string_view word)>;

/// What is lost of letters.
struct BertCasing {
  bool lower_case = true;     ///< letters become lower case
  bool strip_accents = true;  ///< NFD without nonspacing marks

  bool operator==(const BertCasing&) const = default;
};

/// BERT's two: both are lost, or neither.
inline constexpr BertCasing kUncased = {true, true};
inline constexpr BertCasing kCased = {false, false};

/// Calls `on_word` for each word of `text` in order: control characters and invalid UTF-8 are
/// dropped; then accents and upper case, as `casing` says; then words are what white space divides,
/// and punctuation and ideographs are words by themselves. At most 2^30 bytes, where not all are
/// ASCII.
void for_each_bert_word(std::string_view text, BertCasing casing, const OnWord& on_word);

/// Calls `on_chunk(std::string_view)` with each part of `text` between spaces, tabs and line ends,
/// which end a word: the words of the parts are those of the text.
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

/// The end of the last character of `text` after which a word ends whatever follows; 0 if there is
/// none. Looks at the end of `text` first.
size_t last_bert_word_end(std::string_view text);

/// The start of the last character of `text`: `text` up to there has no part of a character. 0 if
/// that is its only character.
size_t last_character_start(std::string_view text);

/// How many U+FFFD stand for what is not UTF-8 in `text`: one for each longest part of a character,
/// as Unicode recommends and Python does.
int64_t count_invalid_utf8(std::string_view text);

/// `text` with these U+FFFD in place of what is not UTF-8.
std::string replace_invalid_utf8(std::string_view text);

}  // namespace tessera
