#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace tessera {

/// A word as the tokens that it is made of so far, and how often it comes.
struct CountedWord {
  std::vector<int32_t> tokens;
  int64_t count = 0;
};

/// Two tokens that stand side by side.
using TokenPair = std::pair<int32_t, int32_t>;

struct JoinedPairs {
  std::vector<std::string> tokens;  ///< those that were there, then the new ones
  std::vector<TokenPair> pairs;     ///< that were joined, in this order
};

/// Byte-pair encoding (Sennrich et al. 2016): joins the most frequent pair of neighbours in `words`
/// again and again, the one of the smallest tokens where counts are equal, until there are
/// `vocab_size` tokens or no pair comes `min_count` times. `tokens` are those that are there at the
/// start; `text_of` gives the text of a token of two others. The same arguments give the same
/// result.
JoinedPairs join_pairs(
    std::vector<std::string> tokens, std::vector<CountedWord> words, int64_t vocab_size,
    int64_t min_count,
    const std::function<std::string(const std::string& left, const std::string& right)>& text_of);

}  // namespace tessera
