#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tessera {

/// Caches the positions of the tokens of words, since most words of a text are repeated. The text
/// and the tokens must outlive it.
class WordCache {
 public:
  explicit WordCache(std::vector<int32_t>& tokens) : tokens_(tokens) {}

  /// Appends the tokens of `word`, which is part of the text. Copies them if the word is known;
  /// otherwise `append()` appends them.
  template <typename Append>
  void append(std::string_view word, Append&& append) {
    const auto [place, is_new] = known_.try_emplace(word);
    auto& [begin, count] = place->second;
    if (is_new) {
      begin = tokens_.size();
      append();
      count = tokens_.size() - begin;
    } else {
      for (size_t i = begin; i < begin + count; ++i) tokens_.push_back(tokens_[i]);
    }
  }

 private:
  struct Place {
    size_t begin = 0;
    size_t count = 0;
  };

  std::vector<int32_t>& tokens_;
  std::unordered_map<std::string_view, Place> known_;
};

}  // namespace tessera
