#include "launch/tokenizer/wordpiece_training.h"

#include <algorithm>
#include <map>
#include <queue>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/checked.h"
#include "core/error.h"
#include "launch/tokenizer/wordpiece_vocabulary.h"

namespace tessera {
namespace {

using Pair = std::pair<int32_t, int32_t>;

struct PairHash {
  size_t operator()(const Pair& pair) const {
    const auto high = static_cast<uint64_t>(static_cast<uint32_t>(pair.first)) << 32;
    return std::hash<uint64_t>()((high | static_cast<uint32_t>(pair.second)) *
                                 uint64_t{0x9E3779B97F4A7C15});
  }
};

/// A word as the tokens that it is made of so far.
struct Word {
  std::vector<int32_t> tokens;
  int64_t count = 0;
};

/// How often a pair stands in the text, and the words in which it stands, or stood.
struct PairPlaces {
  int64_t count = 0;
  std::vector<size_t> words;
};

/// A pair with its count when it was queued: the most frequent is first, then the smallest.
struct Candidate {
  int64_t count = 0;
  Pair pair;

  bool operator<(const Candidate& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

/// The characters of valid UTF-8.
std::vector<std::string_view> characters(std::string_view word) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin < word.size();) {
    size_t end = begin + 1;
    while (end < word.size() && (static_cast<unsigned char>(word[end]) & 0xC0) == 0x80) ++end;
    parts.push_back(word.substr(begin, end - begin));
    begin = end;
  }
  return parts;
}

/// The most frequent characters, at most `most`; by code point, which is the order of their bytes.
std::set<std::string_view> alphabet_of(const WordCounts& words, int64_t most) {
  std::map<std::string_view, int64_t> counts;
  for (const auto& [word, count] : words) {
    for (const std::string_view character : characters(word)) counts[character] += count;
  }
  std::vector<std::pair<std::string_view, int64_t>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  if (static_cast<int64_t>(sorted.size()) > most) sorted.resize(static_cast<size_t>(most));
  std::set<std::string_view> alphabet;
  for (const auto& item : sorted) alphabet.insert(item.first);
  return alphabet;
}

class Training {
 public:
  Training(const WordCounts& counts, const WordPieceTrainingOptions& options) : options_(options) {
    add_initial_tokens(counts);
    add_words(counts);
  }

  std::vector<std::string> run() {
    queue_all();
    while (static_cast<int64_t>(tokens_.size()) < options_.vocab_size && !queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      const int64_t count = pairs_[best.pair].count;
      if (count != best.count) {  // other joins have changed it since
        if (count > 0) queue_.push({count, best.pair});
        continue;
      }
      if (count < std::max<int64_t>(options_.min_count, 1)) break;
      join(best.pair);
    }
    return std::move(tokens_);
  }

 private:
  void add_initial_tokens(const WordCounts& counts) {
    for (const std::string_view name : kBertSpecial) add_token(std::string(name));
    const auto alphabet = alphabet_of(counts, options_.max_characters);
    std::set<std::string_view> continuing;
    for (const auto& [word, count] : counts) {
      const auto parts = characters(word);
      for (size_t i = 1; i < parts.size(); ++i) {
        if (alphabet.count(parts[i]) == 1) continuing.insert(parts[i]);
      }
    }
    for (const std::string_view character : alphabet) add_token(std::string(character));
    for (const std::string_view character : continuing) {
      add_token(std::string(kContinuation).append(character));
    }
    require(
        static_cast<int64_t>(tokens_.size()) <= options_.vocab_size,
        "the vocabulary is to have {} tokens, but {} special tokens and the {} characters of the "
        "text, at the start and inside of words, are {} already: choose {} or more, or keep "
        "fewer characters",
        options_.vocab_size, std::size(kBertSpecial), alphabet.size(), tokens_.size(),
        tokens_.size());
  }

  void add_words(const WordCounts& counts) {
    std::string token;
    for (const auto& [text, count] : counts) {
      Word word{{}, count};
      for (const std::string_view character : characters(text)) {
        token.assign(character.data() == text.data() ? "" : kContinuation).append(character);
        const auto found = ids_.find(token);
        if (found != ids_.end()) word.tokens.push_back(found->second);
      }
      add_pairs(word, words_.size());
      words_.push_back(std::move(word));
    }
  }

  void add_pairs(const Word& word, size_t index) {
    for (size_t i = 1; i < word.tokens.size(); ++i) {
      add_pair({word.tokens[i - 1], word.tokens[i]}, word.count, index);
    }
  }

  void add_pair(const Pair& pair, int64_t count, size_t word) {
    PairPlaces& places = pairs_[pair];
    places.count += count;
    if (places.words.empty() || places.words.back() != word) places.words.push_back(word);
  }

  void queue_all() {
    for (const auto& [pair, places] : pairs_) queue_.push({places.count, pair});
  }

  void join(const Pair& pair) {
    const std::string& left = tokens_[static_cast<size_t>(pair.first)];
    const std::string_view right = tokens_[static_cast<size_t>(pair.second)];
    const int32_t joined = add_token(left + std::string(right.substr(kContinuation.size())));
    const std::vector<size_t> words = std::move(pairs_[pair].words);
    pairs_.erase(pair);
    std::set<Pair> grown;
    for (const size_t index : words) join_in_word(pair, joined, index, grown);
    for (const Pair& other : grown) queue_.push({pairs_[other].count, other});
  }

  /// Joins the pair wherever it stands in a word; `grown` gets the pairs that are there now.
  void join_in_word(const Pair& pair, int32_t joined, size_t index, std::set<Pair>& grown) {
    Word& word = words_[index];
    const auto change = [&](int32_t left, int32_t right, int64_t by) {
      if (Pair(left, right) != pair) pairs_[{left, right}].count += by;
    };
    std::vector<int32_t>& tokens = word.tokens;
    for (size_t i = 0; i + 1 < tokens.size(); ++i) {
      if (tokens[i] != pair.first || tokens[i + 1] != pair.second) continue;
      if (i > 0) {
        change(tokens[i - 1], tokens[i], -word.count);
        add_pair({tokens[i - 1], joined}, word.count, index);
        grown.insert({tokens[i - 1], joined});
      }
      if (i + 2 < tokens.size()) {
        change(tokens[i + 1], tokens[i + 2], -word.count);
        add_pair({joined, tokens[i + 2]}, word.count, index);
        grown.insert({joined, tokens[i + 2]});
      }
      tokens[i] = joined;
      tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    }
  }

  int32_t add_token(std::string token) {
    const auto [place, is_new] = ids_.emplace(token, narrow<int32_t>(tokens_.size()));
    if (is_new) tokens_.push_back(std::move(token));
    return place->second;
  }

  const WordPieceTrainingOptions& options_;
  std::vector<std::string> tokens_;
  std::unordered_map<std::string, int32_t> ids_;
  std::vector<Word> words_;
  std::unordered_map<Pair, PairPlaces, PairHash> pairs_;
  std::priority_queue<Candidate> queue_;
};

}  // namespace

std::vector<std::string> train_wordpiece(const WordCounts& words,
                                         const WordPieceTrainingOptions& options) {
  require(!words.empty(), "there is no word in the text to make a vocabulary of");
  return Training(words, options).run();
}

}  // namespace tessera
