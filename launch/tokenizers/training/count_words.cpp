#include "launch/tokenizers/training/count_words.h"

#include <functional>
#include <string_view>
#include <unordered_map>

#include "launch/support/files/file_pieces.h"
#include "launch/tokenizers/text/byte_level_words.h"
#include "launch/tokenizers/wordpiece/wordpiece_vocabulary.h"

namespace tessera {
namespace {

/// Calls `on_text` with all of a text, in parts that end where `last_end` finds the end of a word.
/// Only words of more than kPieceBytes are cut.
template <typename LastEnd, typename OnText>
void for_each_part(const InputText& text, LastEnd&& last_end, OnText&& on_text) {
  std::string rest;
  const auto add = [&](std::string_view piece) {
    rest += piece;
    if (rest.size() < kPieceBytes) return;
    const size_t end = last_end(rest);
    const size_t cut = end > 0 ? end : rest.size();
    on_text(std::string_view(rest).substr(0, cut));
    rest.erase(0, cut);
  };
  for_each_text(text, add, [&] {
    on_text(std::string_view(rest));
    rest.clear();
  });
}

/// Counts strings, many of which are repeated.
class Counts {
 public:
  void add(std::string_view text) {
    const auto found = counts_.find(text);
    if (found == counts_.end()) {
      counts_.emplace(text, 1);
    } else {
      ++found->second;
    }
  }

  auto begin() const { return counts_.begin(); }
  auto end() const { return counts_.end(); }

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::unordered_map<std::string, int64_t, Hash, std::equal_to<>> counts_;
};

}  // namespace

// Counts the chunks between white space first and splits them into words at the end, because most
// chunks are repeated.
WordCounts count_bert_words(const InputText& input, BertCasing casing) {
  constexpr size_t kLongestKept = 1000;
  WordCounts words;
  const auto add_words = [&](std::string_view chunk, int64_t count) {
    for_each_bert_word(chunk, casing, [&](std::string_view word) {
      if (!is_too_long(word)) words[std::string(word)] += count;
    });
  };
  Counts chunks;
  for_each_part(input, last_bert_word_end, [&](std::string_view text) {
    for_each_chunk(text, [&](std::string_view chunk) {
      if (chunk.size() > kLongestKept) {
        add_words(chunk, 1);
      } else {
        chunks.add(chunk);
      }
    });
  });
  for (const auto& [chunk, count] : chunks) add_words(chunk, count);
  return words;
}

WordCounts count_byte_level_words(const InputText& input) {
  Counts words;
  const auto last_end = [](std::string_view text) { return last_byte_level_word_end(text, false); };
  for_each_part(input, last_end, [&](std::string_view text) {
    for_each_byte_level_word(text, [&](std::string_view word) {
      for (; word.size() > kMaxCountedBytes; word.remove_prefix(kMaxCountedBytes)) {
        words.add(word.substr(0, kMaxCountedBytes));
      }
      words.add(word);
    });
  });
  return {words.begin(), words.end()};
}

}  // namespace tessera
