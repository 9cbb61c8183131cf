#include "launch/data/datasets/text_pairs.h"

#include <gtest/gtest.h>

#include <set>

#include "launch/tokenizers/tokenizer_spec.h"
#include "tests/launch/data/test_files.h"
#include "tests/support/expect_error.h"
#include "tests/support/runs/small_runs.h"
#include "tests/support/test_folder.h"

namespace tessera {
namespace {

using test::expect_error;
using Ids = std::vector<int32_t>;

class TextPairFiles : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    write_file(folder_ / name, text);
    return folder_ / name;
  }

  test::TestFolder folder_;
  std::unique_ptr<const Tokenizer> bytes_ = make_tokenizer("byte");
};

TEST_F(TextPairFiles, DecoderReadsTheTargetShiftedByOne) {
  const std::string path = write("p.tsv", "target\tsource\nxy\tabc\nz\td\n");
  const auto pairs = read_pairs(path, PairEncoder(*bytes_, 4, 3, /*truncate=*/false));
  ASSERT_EQ(pairs->size(), 2);
  const int32_t end = *bytes_->end_of_document();
  Sample sample;
  pairs->fill(0, sample);
  EXPECT_EQ(sample.source_tokens, (Ids{'a', 'b', 'c', end}));
  EXPECT_EQ(sample.source_lengths, Ids{4});
  EXPECT_EQ(sample.tokens, (Ids{end, 'x', 'y'}));
  EXPECT_EQ(sample.targets, (Ids{'x', 'y', end}));
  EXPECT_EQ(sample.document_lengths, Ids{3});
  pairs->fill(1, sample);
  EXPECT_EQ(sample.source_tokens, (Ids{'d', end}));
  EXPECT_EQ(sample.targets, (Ids{'z', end}));
  EXPECT_THROW(pairs->fill(2, sample), Error);
}

TEST_F(TextPairFiles, PaddingTokenStartsTheDecoder) {
  test::write_vocabulary(folder_ / "vocab.txt", test::kSmallVocabulary);
  const auto words = make_tokenizer("wordpiece:" + (folder_ / "vocab.txt"));
  const SequenceEnds ends = sequence_ends(*words);
  EXPECT_EQ(ends.start, words->special().padding);
  EXPECT_EQ(ends.end, words->special().end);
}

TEST_F(TextPairFiles, NamesWrongLines) {
  const auto read = [&](const std::string& name, const std::string& text, bool truncate = false) {
    return read_pairs(write(name, text), PairEncoder(*bytes_, 4, 3, truncate))->num_truncated();
  };
  const struct {
    const char *name, *text;
    std::vector<const char*> messages;
  } cases[] = {
      {"p.txt", "a\n", {"p.txt", ".csv or .tsv"}},
      {"p.tsv",
       "source\ttarget\nabcd\tx\n",
       {"p.tsv:2", "source has 4", "model.source_length is 4", "room for 3",
        "(data.truncate=true in training, --truncate in generate)"}},
      {"p.tsv", "source\ttarget\na\txyz\n", {"p.tsv:2", "target has 3", "model.seq_length is 3"}},
      {"p.tsv", "source\ttarget\n\tx\n", {"p.tsv:2", "source has no tokens"}},
      {"p.jsonl", R"({"source": "a", "target": ""})", {"p.jsonl:1", "target has no tokens"}},
      {"p.jsonl", R"({"source": "a"})", {"p.jsonl:1", "no field \"target\""}},
      {"p.tsv", "source\ttarget\n", {"p.tsv", "no pair"}},
  };
  for (const auto& [name, text, messages] : cases) {
    SCOPED_TRACE(text);
    const std::string error =
        test::error_of([&, file = name, content = text] { read(file, content); });
    for (const char* message : messages) EXPECT_NE(error.find(message), std::string::npos) << error;
  }
  EXPECT_EQ(read("p.tsv", "source\ttarget\nabcd\tx\na\txyz\nb\ty\n", true), 2);
  expect_error([&] { PairEncoder(*bytes_, 1, 3, false); }, {"model.source_length is 1"});
}

TEST_F(TextPairFiles, RangesOfADatasetShareNoPair) {
  std::string text = "source\ttarget\n";
  for (char c = 'a'; c <= 'j'; ++c) text += fmt::format("{}\t{}\n", c, c);
  const auto pairs = read_pairs(write("p.tsv", text), PairEncoder(*bytes_, 4, 3, false));
  std::set<int32_t> seen;
  Sample sample;
  for (const Range range : {Range{0, 7}, Range{7, 10}}) {
    const TextDataset dataset(pairs, range);
    for (int64_t i = 0; i < dataset.num_samples(); ++i) {
      dataset.fill(i, /*epoch=*/3, sample);
      EXPECT_EQ(sample.source_tokens[0], sample.targets[0]);
      EXPECT_TRUE(seen.insert(sample.targets[0]).second);
    }
  }
  EXPECT_EQ(seen.size(), 10u);
  EXPECT_THROW(TextDataset(pairs, {5, 11}), Error);
}

}  // namespace
}  // namespace tessera
