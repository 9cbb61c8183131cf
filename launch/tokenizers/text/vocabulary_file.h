#pragma once

#include <cstddef>
#include <string>

#include "launch/support/files/mapped_file.h"

namespace tessera {

/// The maximum size of a file with tokens; published files are below 35 MB.
inline constexpr size_t kMaxVocabularyBytes = size_t{64} << 20;

/// The maximum number of lines, or of JSON values. Each takes 100 bytes of memory or more, even if
/// it is short in the file. Published files have fewer than 1.4 million.
inline constexpr size_t kMaxVocabularyItems = size_t{1} << 21;

/// Opens a file of tokens or merges, separated by `separator`, '\n' or ','. Throws, naming it, if
/// it cannot be opened, is larger than kMaxVocabularyBytes or has more than kMaxVocabularyItems
/// separators.
MappedFile open_vocabulary_file(const std::string& path, char separator);

/// The tokenizer.json in `path` if that is a folder, otherwise `path` itself.
std::string tokenizer_file_of(const std::string& path);

}  // namespace tessera
