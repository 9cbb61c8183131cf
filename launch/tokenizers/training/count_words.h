#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "launch/support/input/input_files.h"
#include "launch/tokenizers/text/bert_text.h"

namespace tessera {

/// The number of occurrences of each word, sorted by bytes.
using WordCounts = std::map<std::string, int64_t>;

/// Counts the words of for_each_bert_word(), except those of more than 100 characters, which have
/// no pieces. Reads text in pieces: memory grows with the number of distinct words. Throws as
/// for_each_text() does.
WordCounts count_bert_words(const InputText& text, BertCasing casing);

/// The longest word that count_byte_level_words() counts; longer words are split.
inline constexpr size_t kMaxCountedBytes = 1000;

/// Does the same for the words of for_each_byte_level_word().
WordCounts count_byte_level_words(const InputText& text);

}  // namespace tessera
