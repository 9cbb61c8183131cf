#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tessera {

/// How often each word of a text comes, in the order of their bytes.
using WordCounts = std::map<std::string, int64_t>;

/// Counts the words that for_each_bert_word() finds in text files, or pipes, but for those of more
/// than 100 characters, which have no pieces. The files are read in pieces: memory grows with the
/// number of different words. Throws, naming the file, if one can not be read.
WordCounts count_words(const std::vector<std::string>& files, bool cased);

}  // namespace tessera
