#include "launch/tokenizer/count_words.h"

#include <string_view>
#include <unordered_map>

#include "launch/files/file_pieces.h"
#include "launch/tokenizer/bert_text.h"
#include "launch/tokenizer/wordpiece_vocabulary.h"

namespace tessera {
namespace {

/// What stands between white space is kept as it is until the end, and cut into words then: most of
/// it comes many times.
class WordCounter {
 public:
  explicit WordCounter(bool cased) : cased_(cased) {}

  void add(std::string_view text) {
    rest_ += text;
    if (rest_.size() >= kPieceBytes) {
      const size_t cut = last_bert_word_end(rest_);
      count_chunks({rest_.data(), cut});
      rest_.erase(0, cut);
      // A longer word than all that are kept; its end is another word, which does no harm.
      if (cut == 0) rest_.clear();
    }
  }

  void end_file() {
    count_chunks(rest_);
    rest_.clear();
  }

  WordCounts words() const {
    WordCounts words;
    for (const auto& [chunk, count] : chunks_) add_words(chunk, count, words);
    for (const auto& [word, count] : words_of_long_chunks_) words[word] += count;
    return words;
  }

 private:
  void count_chunks(std::string_view text) {
    constexpr size_t kLongest = 1000;
    for_each_chunk(text, [&](std::string_view chunk) {
      if (chunk.size() > kLongest) {
        add_words(chunk, 1, words_of_long_chunks_);
      } else {
        ++chunks_[std::string(chunk)];
      }
    });
  }

  void add_words(std::string_view chunk, int64_t count, WordCounts& words) const {
    for_each_bert_word(chunk, cased_, [&](std::string_view word) {
      if (!is_too_long(word)) words[std::string(word)] += count;
    });
  }

  bool cased_;
  std::string rest_;
  std::unordered_map<std::string, int64_t> chunks_;
  WordCounts words_of_long_chunks_;
};

}  // namespace

WordCounts count_words(const std::vector<std::string>& files, bool cased) {
  WordCounter counter(cased);
  for (const std::string& path : files) {
    for_each_piece(path, [&](std::string_view piece) { counter.add(piece); });
    counter.end_file();
  }
  return counter.words();
}

}  // namespace tessera
