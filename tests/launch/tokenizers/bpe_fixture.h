#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "launch/tokenizers/bpe/bpe_tokenizer.h"
#include "launch/tokenizers/text/byte_alphabet.h"
#include "tests/launch/data/test_files.h"

namespace tessera {

/// The 256 bytes, then the results of `merges` in order, then special tokens.
inline BpeDescription small_bpe(const std::vector<std::string>& merges,
                                const std::vector<std::string>& special = {"<|endoftext|>"}) {
  BpeDescription bpe;
  for (const uint8_t byte : bytes_in_alphabet_order()) {
    bpe.tokens.push_back(to_alphabet({reinterpret_cast<const char*>(&byte), 1}));
  }
  for (const std::string& merge : merges) {
    std::string joined = merge;
    joined.erase(joined.find(' '), 1);
    if (std::find(bpe.tokens.begin(), bpe.tokens.end(), joined) == bpe.tokens.end()) {
      bpe.tokens.push_back(joined);
    }
  }
  bpe.merges = merges;
  bpe.tokens.insert(bpe.tokens.end(), special.begin(), special.end());
  bpe.tokens_source = "small vocabulary";
  bpe.merges_source = "merge ";
  return bpe;
}

inline BpeTokenizer small_bpe_tokenizer(const std::vector<std::string>& merges,
                                        const std::vector<std::string>& special = {
                                            "<|endoftext|>"}) {
  return BpeTokenizer(BpeVocabulary(small_bpe(merges, special)));
}

/// Writes a folder with vocab.json and merges.txt.
inline void write_bpe_folder(const std::string& folder, const BpeDescription& bpe) {
  std::filesystem::create_directories(folder);
  write_file(folder + "/vocab.json", bpe_vocabulary_text(bpe.tokens));
  write_file(folder + "/merges.txt", bpe_merges_text(bpe.merges));
}

}  // namespace tessera
