#include "launch/tokenizers/training/join_pairs.h"

#include <algorithm>
#include <queue>
#include <set>
#include <unordered_map>

#include "core/checked.h"

namespace tessera {
namespace {

struct PairHash {
  size_t operator()(const TokenPair& pair) const {
    const auto high = static_cast<uint64_t>(static_cast<uint32_t>(pair.first)) << 32;
    return std::hash<uint64_t>()((high | static_cast<uint32_t>(pair.second)) *
                                 uint64_t{0x9E3779B97F4A7C15});
  }
};

/// The number of occurrences of a pair, and the words that contain it or once did.
struct PairPlaces {
  int64_t count = 0;
  std::vector<size_t> words;
};

/// A pair with its count when it was queued. The most frequent is first, then the smallest.
struct PairCandidate {
  int64_t count = 0;
  TokenPair pair;

  bool operator<(const PairCandidate& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

class PairJoiner {
 public:
  PairJoiner(std::vector<std::string> tokens, std::vector<CountedWord> words)
      : words_(std::move(words)) {
    for (std::string& token : tokens) add_token(std::move(token));
    for (size_t i = 0; i < words_.size(); ++i) add_pairs(words_[i], i);
  }

  template <typename TextOf>
  JoinedPairs run(int64_t vocab_size, int64_t min_count, TextOf&& text_of) {
    for (const auto& [pair, places] : pairs_) queue_.push({places.count, pair});
    std::vector<TokenPair> joined;
    while (static_cast<int64_t>(tokens_.size()) < vocab_size && !queue_.empty()) {
      const PairCandidate best = queue_.top();
      queue_.pop();
      const int64_t count = pairs_[best.pair].count;
      if (count != best.count) {  // stale: other merges have changed the count
        if (count > 0) queue_.push({count, best.pair});
        continue;
      }
      if (count < std::max<int64_t>(min_count, 1)) break;
      const auto text = [&](int32_t token) -> const std::string& {
        return tokens_[static_cast<size_t>(token)];
      };
      join(best.pair, add_token(text_of(text(best.pair.first), text(best.pair.second))));
      joined.push_back(best.pair);
    }
    return {std::move(tokens_), std::move(joined)};
  }

 private:
  void add_pairs(const CountedWord& word, size_t index) {
    for (size_t i = 1; i < word.tokens.size(); ++i) {
      add_pair({word.tokens[i - 1], word.tokens[i]}, word.count, index);
    }
  }

  void add_pair(const TokenPair& pair, int64_t count, size_t word) {
    PairPlaces& places = pairs_[pair];
    places.count += count;
    if (places.words.empty() || places.words.back() != word) places.words.push_back(word);
  }

  void join(const TokenPair& pair, int32_t joined) {
    const std::vector<size_t> words = std::move(pairs_[pair].words);
    pairs_.erase(pair);
    std::set<TokenPair> grown;
    for (const size_t index : words) join_in_word(pair, joined, index, grown);
    for (const TokenPair& other : grown) queue_.push({pairs_[other].count, other});
  }

  /// Merges the pair throughout a word; adds the pairs that this creates to `grown`.
  void join_in_word(const TokenPair& pair, int32_t joined, size_t index,
                    std::set<TokenPair>& grown) {
    CountedWord& word = words_[index];
    const auto lose = [&](int32_t left, int32_t right) {
      if (TokenPair(left, right) != pair) pairs_[{left, right}].count -= word.count;
    };
    const auto gain = [&](int32_t left, int32_t right) {
      add_pair({left, right}, word.count, index);
      grown.insert({left, right});
    };
    std::vector<int32_t>& tokens = word.tokens;
    size_t kept = 0;  // finished tokens at the start of the list
    for (size_t i = 0; i < tokens.size(); ++i) {
      const bool here = i + 1 < tokens.size() && TokenPair(tokens[i], tokens[i + 1]) == pair;
      if (!here) {
        tokens[kept++] = tokens[i];
        continue;
      }
      if (kept > 0) {
        lose(tokens[kept - 1], pair.first);
        gain(tokens[kept - 1], joined);
      }
      if (i + 2 < tokens.size()) {
        lose(pair.second, tokens[i + 2]);
        gain(joined, tokens[i + 2]);
      }
      tokens[kept++] = joined;
      ++i;
    }
    tokens.resize(kept);
  }

  int32_t add_token(std::string token) {
    const auto [place, is_new] = ids_.emplace(token, narrow<int32_t>(tokens_.size()));
    if (is_new) tokens_.push_back(std::move(token));
    return place->second;
  }

  std::vector<std::string> tokens_;
  std::unordered_map<std::string, int32_t> ids_;
  std::vector<CountedWord> words_;
  std::unordered_map<TokenPair, PairPlaces, PairHash> pairs_;
  std::priority_queue<PairCandidate> queue_;
};

}  // namespace

JoinedPairs join_pairs(
    std::vector<std::string> tokens, std::vector<CountedWord> words, int64_t vocab_size,
    int64_t min_count,
    const std::function<std::string(const std::string& left, const std::string& right)>& text_of) {
  return PairJoiner(std::move(tokens), std::move(words)).run(vocab_size, min_count, text_of);
}

}  // namespace tessera
