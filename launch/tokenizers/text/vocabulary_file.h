#pragma once

#include <cstddef>
#include <string>

#include "launch/support/files/mapped_file.h"

namespace tessera {

/// A larger file with a tokenizer's tokens is refused; published ones are below 35 MB.
inline constexpr size_t kMaxVocabularyBytes = size_t{64} << 20;

/// More lines, or values in JSON, are refused: each takes up to 100 bytes of memory and more,
/// however few it has in the file. Published files have below 1.4 million.
inline constexpr size_t kMaxVocabularyItems = size_t{1} << 21;

/// A file with a tokenizer's tokens, or merges, with a `separator` between them, '\n' or ','.
/// Throws, naming it, if it can not be opened, is larger than kMaxVocabularyBytes or has more than
/// kMaxVocabularyItems separators.
MappedFile open_vocabulary_file(const std::string& path, char separator);

}  // namespace tessera
