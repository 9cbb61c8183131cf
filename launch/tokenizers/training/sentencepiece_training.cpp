#include "launch/tokenizers/training/sentencepiece_training.h"

#include <sentencepiece_trainer.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "core/error.h"
#include "launch/support/files/file_pieces.h"
#include "launch/tokenizers/sentencepiece/sentencepiece_log.h"
#include "launch/tokenizers/sentencepiece/sentencepiece_model.h"
#include "launch/tokenizers/text/bert_text.h"

namespace tessera {
namespace {

/// The trainer skips longer sentences.
constexpr size_t kLongestSentence = 4096;
/// U+2585, the trainer's mark for unknown text. It skips sentences that contain it.
constexpr std::string_view kReserved = "\xE2\x96\x85";

/// Returns whether the sentence has any text to learn pieces from. The trainer ends the process if
/// no sentence has any.
bool has_words(std::string_view sentence) {
  bool found = false;
  for_each_bert_word(sentence, kCased, [&](std::string_view word) { found |= word != kSpaceMark; });
  return found;
}

/// Splits files into sentences: lines, which are split further if they are long.
class Sentences {
 public:
  void add(std::string_view piece) {
    for (size_t end; (end = piece.find('\n')) != std::string_view::npos;) {
      add_to_line(piece.substr(0, end));
      end_text();
      piece.remove_prefix(end + 1);
    }
    add_to_line(piece);
  }

  void end_text() {
    add_sentence(rest_);
    rest_.clear();
  }

  std::vector<std::string> take() { return std::move(sentences_); }

 private:
  void add_to_line(std::string_view text) {
    rest_ += text;
    std::string_view line = rest_;
    while (line.size() > kLongestSentence) {
      const std::string_view start = line.substr(0, kLongestSentence);
      size_t cut = start.find_last_of(" \t");
      if (cut == std::string_view::npos || cut == 0) cut = last_character_start(start);
      add_sentence(line.substr(0, cut));
      line.remove_prefix(cut);
    }
    rest_.erase(0, rest_.size() - line.size());
  }

  void add_sentence(std::string_view text) {
    std::string sentence = replace_invalid_utf8(text);
    for (size_t at = 0; (at = sentence.find(kReserved, at)) != std::string::npos;) {
      sentence.replace(at, kReserved.size(), " ");
    }
    if (has_words(sentence)) sentences_.push_back(std::move(sentence));
  }

  std::string rest_;  ///< of a line
  std::vector<std::string> sentences_;
};

/// Passes sentences to the trainer.
class SentenceList final : public sentencepiece::SentenceIterator {
 public:
  explicit SentenceList(std::vector<std::string> sentences) : sentences_(std::move(sentences)) {}

  bool done() const override { return at_ == sentences_.size(); }
  void Next() override { std::string().swap(sentences_[at_++]); }
  const std::string& value() const override { return sentences_[at_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  std::vector<std::string> sentences_;
  size_t at_ = 0;
};

/// Returns the number after `words` in a message of the trainer; 0 if it is missing.
int64_t number_after(std::string_view message, std::string_view words) {
  const size_t at = message.find(words);
  if (at == std::string_view::npos) return 0;
  int64_t number = 0;
  for (const char c : message.substr(at + words.size())) {
    if (c < '0' || '9' < c) break;
    number = number * 10 + (c - '0');
  }
  return number;
}

[[noreturn]] void fail_training(std::string_view message,
                                const SentencePieceTrainingOptions& options) {
  const int64_t most = number_after(message, "set it to a value <= ");
  require(most == 0,
          "the requested vocabulary has {} tokens, but the text yields at most {}: choose {} or "
          "fewer, or more text",
          options.vocab_size, most, most);
  const int64_t least = number_after(message, fmt::format(" {} vs ", options.vocab_size));
  require(least == 0,
          "the requested vocabulary has {} tokens, but special tokens and the characters of the "
          "text are already {}: choose {} or more, or a smaller character coverage",
          options.vocab_size, least, least);
  fail("SentencePiece cannot train a model on this text: {}", message);
}

}  // namespace

std::string train_sentencepiece(const InputText& text,
                                const SentencePieceTrainingOptions& options) {
  constexpr int64_t kMost = kMaxPieces;
  constexpr int64_t kSpecial = 7;
  require(kSpecial < options.vocab_size && options.vocab_size <= kMost,
          "the requested vocabulary has {} tokens: choose {} to {}, {} of which are special",
          options.vocab_size, kSpecial + 1, kMost, kSpecial);
  require(0.98 <= options.character_coverage && options.character_coverage <= 1,
          "the requested character coverage is {}: choose 0.98 to 1", options.character_coverage);
  Sentences sentences;
  for_each_text(
      text, [&](std::string_view piece) { sentences.add(piece); }, [&] { sentences.end_text(); });
  SentenceList list(sentences.take());
  require(!list.done(), "there are no words in the text to train a vocabulary on");

  // The result depends on the number of threads, because each sums its share.
  const std::unordered_map<std::string, std::string> arguments = {
      {"model_type", options.bpe ? "bpe" : "unigram"},
      {"vocab_size", std::to_string(options.vocab_size)},
      {"character_coverage", fmt::format("{}", options.character_coverage)},
      {"pad_id", "3"},
      {"control_symbols", "[CLS],[SEP],[MASK]"},
      {"num_threads", "4"},
      {"max_sentence_length", "100000"},
  };
  silence_sentencepiece();
  sentencepiece::SetRandomGeneratorSeed(0);
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(arguments, &list, &model);
  if (!status.ok()) fail_training(status.error_message(), options);
  return model;
}

}  // namespace tessera
