#include "launch/tokenizers/text/vocabulary_file.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "core/error.h"
#include "launch/support/files/replace.h"

namespace tessera {

MappedFile open_vocabulary_file(const std::string& path, char separator) {
  MappedFile file(path);
  remember_input(path);
  require(file.size() <= kMaxVocabularyBytes,
          "{}: has {} bytes, but a vocabulary has at most {}: is this one?", path, file.size(),
          kMaxVocabularyBytes);
  const std::string_view text = file.text();
  const auto items = static_cast<size_t>(std::count(text.begin(), text.end(), separator));
  require(items <= kMaxVocabularyItems,
          "{}: has {} {}, but a vocabulary has at most {}: is this one?", path, items,
          separator == '\n' ? "lines" : "commas", kMaxVocabularyItems);
  return file;
}

std::string tokenizer_file_of(const std::string& path) {
  namespace fs = std::filesystem;
  return fs::is_directory(path) ? (fs::path(path) / "tokenizer.json").string() : path;
}

}  // namespace tessera
