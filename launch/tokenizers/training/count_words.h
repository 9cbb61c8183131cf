#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "launch/support/input/input_files.h"
#include "launch/tokenizers/text/bert_text.h"

namespace tessera {

/// How often each word of a text comes, in the order of their bytes.
using WordCounts = std::map<std::string, int64_t>;

/// Counts the words that for_each_bert_word() finds in a text, but for those of more than 100
/// characters, which have no pieces. It is read in pieces: memory grows with the number of
/// different words. Throws as for_each_text().
WordCounts count_bert_words(const InputText& text, BertCasing casing);

/// The longest word that count_byte_level_words() counts; what is longer is several.
inline constexpr size_t kMaxCountedBytes = 1000;

/// The same of the words that for_each_byte_level_word() finds.
WordCounts count_byte_level_words(const InputText& text);

}  // namespace tessera
