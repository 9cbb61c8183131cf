#include "launch/generation/stop_strings.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/expect_error.h"

namespace tessera {
namespace {

using Strings = std::vector<std::string>;

/// Where the first stop string begins, by trying all: of those that end first, the longest.
size_t textbook_cut(const Strings& stops, const std::string& text) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t begin = text.size();
    for (const std::string& stop : stops) {
      if (std::string_view(text).substr(0, end).ends_with(stop)) {
        begin = std::min(begin, end - stop.size());
      }
    }
    if (begin < text.size()) return begin;
  }
  return text.size();
}

/// The longest end of `text` that is a beginning of a stop string, and shorter than it.
size_t textbook_open(const Strings& stops, const std::string& text) {
  size_t longest = 0;
  for (const std::string& stop : stops) {
    for (size_t size = 1; size < stop.size(); ++size) {
      if (text.ends_with(stop.substr(0, size))) longest = std::max(longest, size);
    }
  }
  return longest;
}

TEST(StopStrings, CutsBeforeTheFirst) {
  const struct {
    Strings stops;
    std::string text, cut;
  } cases[] = {{{}, "all of it", "all of it"},
               {{"\n"}, "one\ntwo\n", "one"},
               {{"END", "\n\n"}, "a\n\nEND", "a"},
               {{"END"}, "EN END", "EN "},
               {{"END"}, "END", ""},
               {{"b", "abc"}, "xabc", "xa"},  // "b" is complete first
               {{"bc", "abc"}, "xabc", "x"},  // both are complete at once
               {{"é"}, "è é", "è "},          // which share their first byte
               {{"aab"}, "aaaab", "aa"},      // an occurrence that overlaps its beginnings
               {{"abab"}, "abaabab", "aba"}};
  for (const auto& [stops, text, cut] : cases) {
    EXPECT_EQ(StopStrings(stops).cut(text), cut) << text;
    EXPECT_EQ(StopStrings(stops).occur_in(text), cut != text) << text;
  }
}

TEST(StopStrings, MatchesTextbookForAnyPieces) {
  const Strings sets[] = {{"a"},           {"ab", "ba"},       {"aab"},
                          {"abab", "bb"},  {"aaa", "b", "ab"}, {"abaab", "aab", "ba"},
                          {"bbbb", "babb"}};
  constexpr size_t kLength = 9;
  for (const Strings& set : sets) {
    const StopStrings stops(set);
    for (unsigned bits = 0; bits < 1u << kLength; ++bits) {
      std::string text;
      for (size_t i = 0; i < kLength; ++i) text += (bits >> i & 1u) != 0 ? 'a' : 'b';
      const size_t cut = textbook_cut(set, text);
      ASSERT_EQ(stops.cut(text).size(), cut) << text;
      for (size_t piece = 1; piece <= 4; ++piece) {
        StopSearch search(stops);
        for (size_t at = 0; at < text.size(); at += piece) {
          search.add(text.substr(at, piece));
          if (search.found()) break;
          ASSERT_EQ(search.open(), textbook_open(set, text.substr(0, at + piece))) << text;
        }
        ASSERT_EQ(search.found().value_or(text.size()), cut) << text;
      }
    }
  }
}

TEST(StopStrings, RefusesEmptyString) {
  test::expect_error([] { StopStrings({"a", ""}); }, {"--stop is empty"});
}

}  // namespace
}  // namespace tessera
