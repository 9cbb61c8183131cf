#include "launch/data/datasets/text_tuples.h"

#include <gtest/gtest.h>

#include <set>

#include "core/ops/cross_entropy.h"
#include "launch/tokenizers/tokenizer_spec.h"
#include "tests/launch/data/test_files.h"
#include "tests/support/expect_error.h"
#include "tests/support/runs/small_runs.h"
#include "tests/support/test_folder.h"

namespace tessera {
namespace {

using test::expect_error;

class TextTupleFiles : public testing::Test {
 protected:
  TextTupleFiles() {
    test::write_vocabulary(folder_ / "vocab.txt", test::kSmallVocabulary);
    tokenizer_ = make_tokenizer("wordpiece:" + (folder_ / "vocab.txt"));
  }

  std::string write(const std::string& name, const std::string& text) const {
    write_file(folder_ / name, text);
    return folder_ / name;
  }

  ClassificationEncoder encoder(int64_t seq_length, bool truncate = false) const {
    return {[this](std::string_view text) { return tokenizer_->encode(text); },
            tokenizer_->traits(), seq_length, truncate};
  }

  /// "anchor|positive|negative" of each line.
  std::vector<std::string> read(const std::string& name, const std::string& text) const {
    std::vector<std::string> found;
    RowReader rows(write(name, text), {{"anchor", "positive"}, {"negative"}});
    while (rows.next()) {
      found.push_back(fmt::format("{}:{}|{}|{}", rows.number(), rows.text("anchor"),
                                  rows.text("positive"),
                                  rows.has("negative") ? rows.text("negative") : "-"));
    }
    return found;
  }

  test::TestFolder folder_;
  std::unique_ptr<const Tokenizer> tokenizer_;
};

TEST_F(TextTupleFiles, ReadsColumnsInAnyOrder) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(read("a.tsv", "positive\tanchor\nb\ta\n\"d\tc\n"), (Lines{"2:a|b|-", "3:c|\"d|-"}));
  EXPECT_EQ(read("a.tsv", "anchor\tnegative\tpositive\na\tn\tp\n"), (Lines{"2:a|p|n"}));
  EXPECT_EQ(read("a.jsonl", R"({"positive": "p", "anchor": "a"})"), (Lines{"1:a|p|-"}));
  EXPECT_EQ(read("a.jsonl", R"({"positive": "p", "anchor": "a", "negative": "n"})"),
            (Lines{"1:a|p|n"}));
  EXPECT_FALSE(tuple_columns(write("l.tsv", "text\tlabel\na\t0\n")));
  EXPECT_FALSE(tuple_columns(write("l.jsonl", R"({"text": "a", "label": 0})")));
  EXPECT_FALSE(tuple_columns(folder_ / "data"));
  EXPECT_FALSE(tuple_columns(write("p.tsv", "anchor\tpositive\n"))->negative);
  EXPECT_TRUE(tuple_columns(write("n.jsonl", R"({"anchor": "a", "negative": "n"})"))->negative);
}

TEST_F(TextTupleFiles, NamesWrongLine) {
  const struct {
    const char *name, *text;
    std::vector<const char*> messages;
  } cases[] = {
      {"a.txt", "a\n", {"a.txt", ".csv or .tsv"}},
      {"a.tsv", "anchor\tlabel\na\t0\n", {"a.tsv:1", "no column \"positive\"", "\"label\""}},
      {"a.tsv", "anchor\tnegative\na\tb\n", {"a.tsv:1", "no column \"positive\""}},
      {"a.tsv", "anchor\tanchor\tpositive\n", {"a.tsv:1", "\"anchor\" appears twice"}},
      {"a.tsv", "anchor\tpositive\na\tb\tc\n", {"a.tsv:2", "columns is 3", "names 2"}},
      {"a.tsv", "anchor\tpositive\n\n", {"a.tsv:2", "empty"}},
      {"a.jsonl", "[]\n", {"a.jsonl", "a list"}},
      {"a.jsonl", "{\"anchor\": \"a\"}\n", {"a.jsonl:1", "no field \"positive\""}},
      {"a.jsonl", "{\"anchor\": 1, \"positive\": \"b\"}\n", {"a.jsonl:1", "\"anchor\"", "number"}},
      {"a.jsonl",
       "{\"anchor\": \"a\", \"score\": 1}\n",
       {"a.jsonl:1", "\"score\"", "no field \"positive\""}},
      {"a.jsonl",
       "{\"anchor\": \"a\", \"positive\": \"b\"}\n"
       "{\"anchor\": \"a\", \"positive\": \"b\", \"negative\": \"c\"}\n",
       {"a.jsonl:2", "a \"negative\"", "first row"}},
  };
  for (const auto& [name, text, messages] : cases) {
    SCOPED_TRACE(text);
    const std::string error = test::error_of([&] { read(name, text); });
    for (const char* message : messages) EXPECT_NE(error.find(message), std::string::npos) << error;
  }
}

TEST_F(TextTupleFiles, EachTextIsADocument) {
  const std::string path = write("a.tsv", "anchor\tpositive\tnegative\nw0 w3\tw6\tw9 w9 w9\n");
  const auto tuples = read_tuples(path, {.hard_negatives = true}, encoder(8));
  Sample sample;
  tuples->fill(0, sample);
  EXPECT_EQ(sample.document_lengths, (std::vector<int32_t>{4, 3, 5}));
  EXPECT_EQ(sample.labels, (std::vector<int32_t>{0, kIgnoreTarget, kIgnoreTarget}));
  const int32_t cls = *tokenizer_->traits().special.start;
  EXPECT_EQ(sample.tokens.size(), 12u);
  EXPECT_EQ(sample.tokens[0], cls);
  EXPECT_EQ(sample.tokens[4], cls);
  EXPECT_EQ(sample.tokens[7], cls);
  const auto both = read_tuples(path, {.hard_negatives = true, .symmetric_loss = true}, encoder(8));
  both->fill(0, sample);
  EXPECT_EQ(sample.labels, (std::vector<int32_t>{0, 0, kIgnoreTarget}));
}

TEST_F(TextTupleFiles, ChecksLengthsAndNegatives) {
  const std::string path = write("a.tsv", "anchor\tpositive\nw0\tw3\nw0\tw0 w3 w6 w9\n");
  expect_error([&] { read_tuples(path, {}, encoder(5)); },
               {"a.tsv:3, positive", "6 tokens", "seq_length is 5"});
  const auto cut = read_tuples(path, {}, encoder(5, /*truncate=*/true));
  EXPECT_EQ(cut->num_truncated(), 1);
  EXPECT_EQ(cut->size(), 2);
  expect_error([&] { read_tuples(path, {.hard_negatives = true}, encoder(8)); },
               {"a.tsv:2", "no negative", "model.hard_negatives is true", "choose false"});
  const std::string more = write("n.tsv", "anchor\tpositive\tnegative\nw0\tw3\tw6\n");
  expect_error([&] { read_tuples(more, {}, encoder(8)); },
               {"n.tsv:2", "a negative", "choose true"});
  expect_error([&] { read_tuples(write("e.tsv", "anchor\tpositive\n"), {}, encoder(8)); },
               {"e.tsv", "no tuple"});
}

TEST_F(TextTupleFiles, DatasetSelectsEachTupleOnce) {
  std::string text = "anchor\tpositive\n";
  for (int i = 0; i < 10; ++i) text += fmt::format("w{}\tw{}\n", 3 * i, 3 * i);
  const auto tuples = read_tuples(write("a.tsv", text), TupleUse{}, encoder(8));
  const TextDataset first(tuples, {0, 7}), last(tuples, {7, 10});
  EXPECT_EQ(first.num_samples() + last.num_samples(), 10);
  EXPECT_EQ(first.seq_length(), 16);
  std::set<int32_t> seen;
  Sample sample;
  for (const TextDataset* part : {&first, &last}) {
    for (int64_t i = 0; i < part->num_samples(); ++i) {
      part->fill(i, 0, sample);
      EXPECT_TRUE(seen.insert(sample.tokens[1]).second);
    }
  }
  expect_error([&] { first.fill(7, 0, sample); }, {"no sample 7", "7"});
  expect_error([&] { TextDataset(tuples, {5, 11}); }, {"[5, 11)", "10"});
}

}  // namespace
}  // namespace tessera
