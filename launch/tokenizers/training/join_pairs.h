#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace tessera {

/// A word as its current tokens, and its number of occurrences.
struct CountedWord {
  std::vector<int32_t> tokens;
  int64_t count = 0;
};

/// Two adjacent tokens.
using TokenPair = std::pair<int32_t, int32_t>;

struct JoinedPairs {
  std::vector<std::string> tokens;  ///< the initial tokens, then the new ones
  std::vector<TokenPair> pairs;     ///< merged pairs, in order
};

/// Byte-pair encoding (Sennrich et al. 2016): repeatedly merges the most frequent adjacent pair in
/// `words`, the one with the smallest tokens on a tie, until there are `vocab_size` tokens or no
/// pair occurs `min_count` times. `tokens` are the initial tokens; `text_of` returns the text of a
/// merged token. Deterministic.
JoinedPairs join_pairs(
    std::vector<std::string> tokens, std::vector<CountedWord> words, int64_t vocab_size,
    int64_t min_count,
    const std::function<std::string(const std::string& left, const std::string& right)>& text_of);

}  // namespace tessera
