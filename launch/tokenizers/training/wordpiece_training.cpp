#include "launch/tokenizers/training/wordpiece_training.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/checked.h"
#include "core/error.h"
#include "launch/tokenizers/training/join_pairs.h"
#include "launch/tokenizers/wordpiece/wordpiece_vocabulary.h"

namespace tessera {
namespace {

/// Splits valid UTF-8 into characters.
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

/// Returns the `most` most frequent characters, ordered by code point, which is the order of their
/// bytes.
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

/// Returns the special tokens, followed by the characters at the start of and inside words.
std::vector<std::string> initial_tokens(const WordCounts& counts,
                                        const WordPieceTrainingOptions& options) {
  std::vector<std::string> tokens(std::begin(kBertSpecial), std::end(kBertSpecial));
  const auto alphabet = alphabet_of(counts, options.max_characters);
  std::set<std::string_view> continuing;
  for (const auto& [word, count] : counts) {
    const auto parts = characters(word);
    for (size_t i = 1; i < parts.size(); ++i) {
      if (alphabet.count(parts[i]) == 1) continuing.insert(parts[i]);
    }
  }
  for (const std::string_view character : alphabet) tokens.emplace_back(character);
  for (const std::string_view character : continuing) {
    tokens.push_back(std::string(kContinuation).append(character));
  }
  require(static_cast<int64_t>(tokens.size()) <= options.vocab_size,
          "the requested vocabulary has {} tokens, but {} special tokens and the {} characters of "
          "the text, at the start of and inside words, are already {}: choose {} or more, or keep "
          "fewer characters",
          options.vocab_size, std::size(kBertSpecial), alphabet.size(), tokens.size(),
          tokens.size());
  return tokens;
}

/// Returns words as the tokens of their characters, without words that have a dropped character.
std::vector<CountedWord> words_of(const WordCounts& counts,
                                  const std::vector<std::string>& tokens) {
  std::unordered_map<std::string_view, int32_t> ids;
  for (const std::string& token : tokens) ids.emplace(token, narrow<int32_t>(ids.size()));
  std::vector<CountedWord> words;
  std::string token;
  for (const auto& [text, count] : counts) {
    CountedWord word{{}, count};
    for (const std::string_view character : characters(text)) {
      token.assign(character.data() == text.data() ? "" : kContinuation).append(character);
      const auto found = ids.find(token);
      if (found != ids.end()) word.tokens.push_back(found->second);
    }
    words.push_back(std::move(word));
  }
  return words;
}

}  // namespace

std::vector<std::string> train_wordpiece(const WordCounts& words,
                                         const WordPieceTrainingOptions& options) {
  require(!words.empty(), "there are no words in the text to train a vocabulary on");
  std::vector<std::string> tokens = initial_tokens(words, options);
  std::vector<CountedWord> counted = words_of(words, tokens);
  const auto text_of = [](const std::string& left, const std::string& right) {
    return left + right.substr(kContinuation.size());
  };
  return join_pairs(std::move(tokens), std::move(counted), options.vocab_size, options.min_count,
                    text_of)
      .tokens;
}

}  // namespace tessera
