#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// Strings that end a generated text. The text ends with the byte that completes the first of them,
/// and is cut where that one begins; if the byte completes several, where the longest begins.
/// Strings are compared byte by byte.
class StopStrings {
 public:
  StopStrings() = default;
  /// Throws, naming the option, if one is empty.
  explicit StopStrings(std::vector<std::string> strings);

  bool empty() const { return patterns_.empty(); }

  /// Returns the text before the first stop string; all of it if there is none.
  std::string_view cut(std::string_view text) const;
  bool occur_in(std::string_view text) const { return cut(text).size() < text.size(); }

 private:
  friend class StopSearch;

  struct Pattern {
    std::string text;
    /// For each length of a matched beginning, from 1: the length of the longest shorter beginning
    /// that it ends with.
    std::vector<size_t> shorter;
  };

  std::vector<Pattern> patterns_;
};

/// Finds the first stop string in a text that arrives in pieces of any size (Knuth, Morris and
/// Pratt, 1977).
class StopSearch {
 public:
  /// `stops` must outlive this.
  explicit StopSearch(const StopStrings& stops);

  /// Continues with the next piece of the text, unless the stop string has been found.
  void add(std::string_view piece);

  /// The number of bytes before the stop string, once it has been found.
  std::optional<size_t> found() const { return found_; }

  /// How many bytes at the end of the text may be the beginning of a stop string.
  size_t open() const;

 private:
  std::span<const StopStrings::Pattern> patterns_;
  std::vector<size_t> matched_;  // of each pattern: the length of the beginning that ends the text
  size_t size_ = 0;              // of the text
  std::optional<size_t> found_;
};

}  // namespace tessera
