#include "launch/data/datasets/labeled_words.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/ops/cross_entropy.h"
#include "launch/data/datasets/text_encoders.h"
#include "tests/launch/data/test_files.h"
#include "tests/support/runs/small_runs.h"

namespace tessera {
namespace {

using Ints = std::vector<int32_t>;

struct Sentence {
  int64_t number;
  std::vector<std::string> words;
  Ints labels;
  bool operator==(const Sentence&) const = default;
};

class LabeledWords : public testing::Test {
 protected:
  std::vector<Sentence> read(const std::string& name, const std::string& bytes,
                             const Labels& labels) {
    write_file(folder_ / name, bytes);
    std::vector<Sentence> found;
    for_each_labeled_sentence(folder_ / name, labels, [&](const LabeledSentence& sentence) {
      found.push_back(
          {sentence.number, {sentence.words.begin(), sentence.words.end()}, sentence.labels});
    });
    return found;
  }

  std::string error(const std::string& name, const std::string& bytes) {
    return error_of([&] { read(name, bytes, names_); });
  }

  const Labels names_{3, {"O", "B-X", "I-X"}};
  TestFolder folder_;
};

TEST_F(LabeledWords, ReadsConll) {
  EXPECT_EQ(read("a.tsv",
                 "\n-DOCSTART-\tO\n\nNew\tB-X\r\nYork\tI-X\nis\tO\n\n\n\"big\"\tO\n-DOCSTART-\tO\n"
                 "yes\tO",
                 names_),
            (std::vector<Sentence>{
                {4, {"New", "York", "is"}, {1, 2, 0}}, {9, {"\"big\""}, {0}}, {11, {"yes"}, {0}}}));
  EXPECT_EQ(read("a.tsv", "a\t2\n", {3}), (std::vector<Sentence>{{1, {"a"}, {2}}}));
  EXPECT_TRUE(read("a.tsv", "\n\n", names_).empty());
}

TEST_F(LabeledWords, ReadsJsonl) {
  EXPECT_EQ(read("a.jsonl",
                 "{\"tokens\": [\"New\", \"York\"], \"tags\": [\"B-X\", \"I-X\"]}\n"
                 "{\"tags\": [\"O\"], \"tokens\": [\"a b\"]}\n",
                 names_),
            (std::vector<Sentence>{{1, {"New", "York"}, {1, 2}}, {2, {"a b"}, {0}}}));
}

TEST_F(LabeledWords, NamesLineOfError) {
  const std::string tsv = folder_ / "a.tsv", jsonl = folder_ / "a.jsonl";
  EXPECT_TRUE(names_all(error("a.tsv", "a\tO\nb\n"),
                        {tsv + ":2", "1 column", "a word, a tab and its label"}));
  EXPECT_TRUE(names_all(error("a.tsv", "a\tO\tx\n"), {tsv + ":1", "3 columns"}));
  EXPECT_TRUE(names_all(error("a.tsv", "a\tO\n\nb\tB-Y\n"),
                        {tsv + ":3", "\"B-Y\"", "one of \"O\", \"B-X\", \"I-X\""}));
  EXPECT_TRUE(names_all(error("a.tsv", "\tO\n"), {tsv + ":1", "the word is empty"}));
  EXPECT_TRUE(names_all(error("a.tsv", "a\t\n"), {tsv + ":1", "the label is empty"}));
  EXPECT_TRUE(names_all(error("a.tsv", "text\tlabel\n"), {tsv + ":1", "header", "remove it"}));
  EXPECT_TRUE(names_all(error("a.txt", "a\tO\n"), {"a.txt", ".json or .tsv"}));
  const auto json = [&](const std::string& line) { return error("a.jsonl", line); };
  EXPECT_TRUE(names_all(json("{\"tokens\": [\"a\", \"b\"], \"tags\": [\"O\"]}"),
                        {jsonl + ":1", "1 tags for 2 tokens"}));
  EXPECT_TRUE(names_all(json("{\"tokens\": [\"a\"], \"tags\": [\"Z\"]}"), {jsonl + ":1", "\"Z\""}));
  EXPECT_TRUE(names_all(json("{\"tokens\": [\"a\"]}"), {jsonl + ":1", "no field \"tags\""}));
  EXPECT_TRUE(names_all(json("{\"tokens\": \"a\", \"tags\": []}"), {jsonl + ":1", "a list"}));
  EXPECT_TRUE(names_all(json("{\"tokens\": [], \"tags\": []}"), {jsonl + ":1", "no token"}));
  EXPECT_TRUE(
      names_all(json("{\"tokens\": [\"\"], \"tags\": [\"O\"]}"), {jsonl + ":1", "token 1"}));
  EXPECT_TRUE(names_all(json("{\"tokens\": [\"a\"], \"ner_tags\": [\"O\"]}"),
                        {jsonl + ":1", "no field \"tags\"", "\"ner_tags\"", "data.columns"}));
}

TEST_F(LabeledWords, FindsLabels) {
  write_file(folder_ / "a.tsv", "a\tO\nb\tB-X\n\nc\tB-Y\n");
  const std::vector<std::string> paths = {folder_ / "a.tsv"};
  EXPECT_EQ(find_word_labels(paths).names, (std::vector<std::string>{"B-X", "B-Y", "O"}));
  write_file(folder_ / "a.tsv", "a\tO\nb\tO\n");
  EXPECT_TRUE(names_all(error_of([&] { find_word_labels(paths); }), {"a.tsv", "the same label"}));
  write_file(folder_ / "a.tsv", "\n");
  EXPECT_TRUE(names_all(error_of([&] { find_word_labels(paths); }), {"a.tsv", "no word"}));
}

/// Whatever bytes a file has, reading it may only throw Error.
TEST_F(LabeledWords, SurvivesEveryByteReplacedByExtremes) {
  const std::vector<std::pair<std::string, std::string>> files = {
      {"a.jsonl", "{\"tokens\": [\"a\", \"b\"], \"tags\": [\"O\", \"O\"]}\n"},
      {"a.tsv", "a\tO\nb\tO\n\nc\tO\n"}};
  for (const auto& [name, bytes] : files) {
    for (size_t i = 0; i < bytes.size(); ++i) {
      for (const char c : {'\0', '\n', '\r', '\t', '"', '{', '9', '\xff'}) {
        std::string broken = bytes;
        broken[i] = c;
        try {
          EXPECT_LE(read(name, broken, names_).size(), 3u);
        } catch (const Error&) {  // expected
        }
      }
    }
  }
}

/// A word of the vocabulary is one token, or several: w2, w5, ... continue the word before.
class WordEncoders : public LabeledWords {
 protected:
  WordEncoders() {
    test::write_vocabulary(folder_ / "vocab.txt", test::kSmallVocabulary);
    tokenizer_ = make_tokenizer("wordpiece:" + (folder_ / "vocab.txt"));
  }

  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(WordEncoders, LabelsFirstTokenOfEachWord) {
  constexpr int32_t kNone = kIgnoreTarget;
  const std::vector<std::string_view> words = {"w0", "w3w2w5", "w6"};
  Sample sample;
  EXPECT_FALSE(WordEncoder(*tokenizer_, 8, false).encode(words, Ints{2, 1, 0}, "", sample));
  EXPECT_EQ(sample.tokens.size(), 7u);
  EXPECT_EQ(sample.targets, (Ints{kNone, 2, 1, kNone, kNone, 0, kNone}));
  EXPECT_EQ(sample.tokens.front(), *tokenizer_->special().start);
  EXPECT_EQ(sample.tokens.back(), *tokenizer_->special().end);
  EXPECT_EQ(sample.document_lengths, Ints{7});
  EXPECT_EQ(sample.token_types, Ints(7, 0));
  EXPECT_TRUE(names_all(
      error_of([&] { WordEncoder(*tokenizer_, 6, false).encode(words, {}, "a.tsv:3", sample); }),
      {"a.tsv:3", "7 tokens", "seq_length is 6", "split it",
       "if it is training data, truncate it (data.truncate=true)"}));
  EXPECT_TRUE(WordEncoder(*tokenizer_, 6, true).encode(words, Ints{2, 1, 0}, "", sample));
  EXPECT_EQ(sample.targets, (Ints{kNone, 2, 1, kNone, kNone, kNone}));
  const std::vector<std::string_view> invisible = {"w0", "\u00ad"};  // cleaned away
  EXPECT_TRUE(names_all(
      error_of([&] { WordEncoder(*tokenizer_, 8, false).encode(invisible, {}, "a:1", sample); }),
      {"a:1: word 2", "has no tokens"}));
}

TEST_F(WordEncoders, TextsKeepTargets) {
  write_file(folder_ / "words.tsv", "w0\tO\nw3w2\tB-X\n\nw6\tI-X\n");
  const auto texts =
      read_labeled(folder_ / "words.tsv", names_, WordEncoder(*tokenizer_, 8, false));
  EXPECT_EQ(texts->size(), 2);
  EXPECT_FALSE(texts->has_pairs());
  Sample sample;
  texts->fill(1, sample);
  EXPECT_EQ(sample.targets, (Ints{kIgnoreTarget, 2, kIgnoreTarget}));
  EXPECT_TRUE(sample.labels.empty());
  texts->fill(0, sample);
  EXPECT_EQ(sample.targets, (Ints{kIgnoreTarget, 0, 1, kIgnoreTarget, kIgnoreTarget}));
}

}  // namespace
}  // namespace tessera
