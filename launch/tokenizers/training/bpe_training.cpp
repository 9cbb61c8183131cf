#include "launch/tokenizers/training/bpe_training.h"

#include <algorithm>
#include <array>

#include "core/checked.h"
#include "core/error.h"
#include "launch/support/files/whole_files.h"
#include "launch/tokenizers/bpe/bpe_vocabulary.h"
#include "launch/tokenizers/text/byte_alphabet.h"
#include "launch/tokenizers/training/join_pairs.h"

namespace tessera {
namespace {

/// Returns words as the tokens of their bytes.
std::vector<CountedWord> words_of(const WordCounts& counts) {
  std::array<int32_t, 256> token_of{};
  int32_t next = 0;
  for (const uint8_t byte : bytes_in_alphabet_order()) token_of[byte] = next++;
  std::vector<CountedWord> words;
  words.reserve(counts.size());
  for (const auto& [text, count] : counts) {
    CountedWord word{std::vector<int32_t>(text.size()), count};
    std::transform(text.begin(), text.end(), word.tokens.begin(),
                   [&](char byte) { return token_of[static_cast<unsigned char>(byte)]; });
    words.push_back(std::move(word));
  }
  return words;
}

}  // namespace

BpeDescription train_bpe(const WordCounts& words, const BpeTrainingOptions& options) {
  require(!words.empty(), "there is no text to train a vocabulary on");
  std::vector<std::string> bytes;
  for (const uint8_t byte : bytes_in_alphabet_order()) {
    bytes.push_back(to_alphabet({reinterpret_cast<const char*>(&byte), 1}));
  }
  const auto num_special = static_cast<int64_t>(options.special.size());
  const int64_t least = static_cast<int64_t>(bytes.size()) + num_special;
  require(least <= options.vocab_size,
          "the requested vocabulary has {} tokens, but the 256 bytes and {} special tokens are "
          "already {}: choose {} or more",
          options.vocab_size, num_special, least, least);
  const auto text_of = [](const std::string& left, const std::string& right) {
    return left + right;
  };
  JoinedPairs joined = join_pairs(std::move(bytes), words_of(words),
                                  options.vocab_size - num_special, options.min_count, text_of);
  BpeDescription bpe;
  bpe.tokens_source = "the new vocabulary";
  bpe.merges_source = "the new vocabulary: merge ";
  bpe.tokens = std::move(joined.tokens);
  for (const auto& [left, right] : joined.pairs) {
    bpe.merges.push_back(bpe.tokens[static_cast<size_t>(left)] + " " +
                         bpe.tokens[static_cast<size_t>(right)]);
  }
  for (const std::string& token : options.special) {
    require(count_invalid_utf8(token) == 0, "the special token {} is not valid UTF-8",
            quote(token));
    require(is_special_name(token),
            "the special token {} must look like <...> or [...]: vocab.json has no other mark for "
            "special tokens",
            quote(token));
    require(token.find(">,<") == std::string::npos && token.find("],[") == std::string::npos,
            "the special token {} is a list: give each token its own --special", quote(token));
    bpe.special.push_back(narrow<int32_t>(bpe.tokens.size()));
    bpe.tokens.push_back(token);
  }
  return BpeVocabulary(std::move(bpe)).description();
}

void write_bpe(const std::filesystem::path& folder, const BpeDescription& bpe, Replace replace) {
  write_whole_files({{(folder / "vocab.json").string(), bpe_vocabulary_text(bpe.tokens)},
                     {(folder / "merges.txt").string(), bpe_merges_text(bpe.merges)}},
                    replace);
}

}  // namespace tessera
