#include <algorithm>
#include <memory>
#include <numeric>
#include <set>

#include "core/random.h"
#include "launch/data/datasets/text_encoders.h"
#include "tests/launch/data/test_files.h"
#include "tests/launch/data/vocabulary.h"

namespace tessera {
namespace {

using Tokens = std::vector<int32_t>;

/// One token per byte: 'a' is 100.
Tokens encode_bytes(std::string_view text) {
  Tokens tokens;
  for (const char c : text) tokens.push_back(100 + (c - 'a'));
  return tokens;
}

struct Line {
  int64_t number;
  std::string text, text_pair;
  int32_t label;
  bool operator==(const Line&) const = default;
};

class LabeledLinesTest : public ::testing::Test {
 protected:
  std::vector<Line> lines(const std::string& name, const std::string& bytes,
                          const Labels& labels = {3}) {
    write_file(folder_ / name, bytes);
    std::vector<Line> result;
    for_each_labeled_line(folder_ / name, labels, [&](const LabeledLine& line) {
      result.push_back({line.number, std::string(line.text),
                        std::string(line.text_pair.value_or("none")), line.label});
    });
    return result;
  }

  std::string message(const std::string& name, const std::string& bytes,
                      const Labels& labels = {3}) {
    return error_of([&] { lines(name, bytes, labels); });
  }

  TestFolder folder_;
};

TEST_F(LabeledLinesTest, ReadsJsonl) {
  EXPECT_EQ(lines("a.jsonl",
                  "{\"text\": \"a \\\"b\\\"\\tc\", \"label\": 2}\r\n"
                  "{\"label\": 0, \"text\": \"\\u00e9\"}"),
            (std::vector<Line>{{1, "a \"b\"\tc", "none", 2}, {2, "\u00e9", "none", 0}}));
  EXPECT_EQ(lines("a.jsonl",
                  "\xEF\xBB\xBF{\"text\":\"x\",\"text_pair\":\"y\",\"label\":\"bad\"}\n"
                  "{\"text\":\"z\",\"text_pair\":\"\",\"label\":\"good\"}\n",
                  {2, {"good", "bad"}}),
            (std::vector<Line>{{1, "x", "y", 1}, {2, "z", "", 0}}));
  EXPECT_TRUE(lines("a.jsonl", "").empty());
}

TEST_F(LabeledLinesTest, ReadsTsv) {
  EXPECT_EQ(lines("a.tsv", "text\tlabel\n\"a\" b\t2\r\nc\t0\n"),
            (std::vector<Line>{{2, "\"a\" b", "none", 2}, {3, "c", "none", 0}}));
  EXPECT_EQ(lines("a.tsv", "\xEF\xBB\xBFlabel\ttext_pair\ttext\ngood\tb\ta\nbad\t\t\n",
                  {2, {"good", "bad"}}),
            (std::vector<Line>{{2, "a", "b", 0}, {3, "", "", 1}}));
  EXPECT_TRUE(lines("a.tsv", "label\ttext").empty());
}

TEST_F(LabeledLinesTest, NamesErrorsInJsonl) {
  const std::string good = "{\"text\": \"a\", \"label\": 1}\n";
  const auto second = [&](const std::string& line, const Labels& labels = {3}) {
    return message(
        "a.jsonl",
        labels.names.empty() ? good + line : "{\"text\": \"a\", \"label\": \"x\"}\n" + line,
        labels);
  };
  const std::string where = (folder_ / "a.jsonl") + ":2";
  EXPECT_TRUE(
      names_all(second("{\"text\": \"a\", \"label\": 3}"), {where, "label is 3", "0 to 2"}));
  EXPECT_TRUE(names_all(second("{\"text\": \"a\", \"label\": -1}"), {where, "label is -1"}));
  EXPECT_TRUE(names_all(second("{\"text\": \"a\", \"label\": 18446744073709551615}"),
                        {where, "label is 18446744073709551615"}));
  EXPECT_TRUE(names_all(second("{\"text\": \"a\", \"label\": 1.0}"), {where, "label is 1.0"}));
  EXPECT_TRUE(
      names_all(second("{\"text\": \"a\", \"label\": \"1\"}"), {where, "is \"1\"", "integer"}));
  EXPECT_TRUE(names_all(second("{\"text\": \"a\", \"label\": \"z\"}", {2, {"x", "y"}}),
                        {where, "is \"z\"", "one of \"x\", \"y\""}));
  EXPECT_TRUE(names_all(second("{\"text\": \"a\", \"label\": 1}", {2, {"x", "y"}}),
                        {where, "is 1", "one of \"x\", \"y\""}));
  EXPECT_TRUE(names_all(second("{\"text\": \"a\", \"label\": 1"), {where, "not valid JSON"}));
  EXPECT_TRUE(names_all(second("{\"text\": \"\xff\", \"label\": 1}"), {where, "not valid JSON"}));
  EXPECT_TRUE(names_all(second("[1, 2]"), {where, "must be one object"}));
  EXPECT_TRUE(names_all(second("{\"label\": 1}"), {where, "no field \"text\""}));
  EXPECT_TRUE(names_all(second("{\"text\": \"a\"}"), {where, "no field \"label\""}));
  EXPECT_TRUE(
      names_all(second("{\"text\": 7, \"label\": 1}"), {where, "\"text\" must be a string"}));
  EXPECT_TRUE(
      names_all(second("{\"text\": \"a\", \"text\": \"b\", \"label\": 1}"), {where, "twice"}));
  EXPECT_TRUE(names_all(second("{\"text\": \"a\", \"label\": 1, \"text_pair\": \"b\"}"),
                        {where, "a \"text_pair\"", "first row"}));
  EXPECT_TRUE(names_all(second("\n" + good), {where, "empty"}));
  EXPECT_TRUE(names_all(second("{\"text\": " + std::string(100, '[')),
                        {where, "more than 32 levels deep"}));
  EXPECT_TRUE(names_all(second(std::string((16 << 20) + 1, 'x')), {where, "16777216 bytes"}));
}

TEST_F(LabeledLinesTest, NamesErrorsInTsv) {
  const std::string path = folder_ / "a.tsv";
  const auto after_header = [&](const std::string& line) {
    return message("a.tsv", "text\tlabel\na\t1\n" + line);
  };
  EXPECT_TRUE(names_all(message("a.tsv", "good film\t1\n"),
                        {path + ":1", "name the columns", "no column \"text\"", "\"good film\""}));
  EXPECT_TRUE(names_all(message("a.tsv", "text\n"), {path + ":1", "no column \"label\""}));
  EXPECT_TRUE(names_all(message("a.tsv", "label\n"), {path + ":1", "no column \"text\""}));
  EXPECT_TRUE(names_all(message("a.tsv", "text\tlabel\ttext\n"), {path + ":1", "text", "twice"}));
  EXPECT_TRUE(names_all(after_header("b"), {path + ":3: the number of columns is 1, but line 1"}));
  EXPECT_TRUE(
      names_all(after_header("b\tc\t1"),
                {path + ":3: the number of columns is 3, but line 1 names 2", "none in a"}));
  EXPECT_TRUE(names_all(after_header("b\t3"), {path + ":3", "label is 3", "0 to 2"}));
  EXPECT_TRUE(names_all(after_header("b\t1x"), {path + ":3", "\"1x\"", "0 to 2"}));
  EXPECT_TRUE(names_all(after_header("b\t"), {path + ":3", "\"\""}));
  EXPECT_TRUE(names_all(after_header("b\t 1"), {path + ":3", "\" 1\""}));
  EXPECT_TRUE(names_all(after_header("b\t99999999999999999999"), {path + ":3", "9999999999"}));
  EXPECT_TRUE(names_all(after_header("\nb\t1"), {path + ":3", "empty"}));
}

TEST_F(LabeledLinesTest, NamesInvalidFilesAndLabels) {
  EXPECT_TRUE(names_all(message("a.dat", "text,label\n"), {folder_ / "a.dat", ".csv or .tsv"}));
  EXPECT_TRUE(names_all(
      error_of([&] { for_each_labeled_line(folder_ / "none.tsv", {2}, nullptr); }), {"none.tsv"}));
  EXPECT_TRUE(names_all(message("a.tsv", "", {1}), {"1 labels", "at least 2"}));
  EXPECT_TRUE(names_all(message("a.tsv", "", {3, {"x", "y"}}), {"2 label names", "3 labels"}));
  EXPECT_TRUE(names_all(message("a.tsv", "", {2, {"x", "x"}}), {"\"x\"", "twice"}));
}

using Values = std::vector<std::vector<float>>;

class LabelValuesTest : public LabeledLinesTest {
 protected:
  /// The numbers of each line.
  Values values(const std::string& name, const std::string& bytes, const Labels& labels) {
    write_file(folder_ / name, bytes);
    Values found;
    for_each_labeled_line(folder_ / name, labels, [&](const LabeledLine& line) {
      found.emplace_back(line.values.begin(), line.values.end());
    });
    return found;
  }

  std::string error(const std::string& name, const std::string& bytes, const Labels& labels) {
    return error_of([&] { values(name, bytes, labels); });
  }

  const Labels sets_{3, {}, ProblemType::multi_label_classification};
  const Labels named_sets_{2, {"new york", "x"}, ProblemType::multi_label_classification};
  const Labels numbers_{1, {}, ProblemType::regression};
};

TEST_F(LabelValuesTest, ReadsSetsOfLabels) {
  EXPECT_EQ(values("a.tsv", "labels\ttext\n2|0\ta\n\tb\n1\tc\n", sets_),
            (Values{{1, 0, 1}, {0, 0, 0}, {0, 1, 0}}));
  EXPECT_EQ(values("a.jsonl",
                   "{\"text\": \"a\", \"labels\": [\"x\", \"new york\"]}\n"
                   "{\"text\": \"b\", \"labels\": []}\n",
                   named_sets_),
            (Values{{1, 1}, {0, 0}}));
  EXPECT_EQ(values("a.tsv", "text\tlabels\na\tx\nb\tnew york|x\n", named_sets_),
            (Values{{0, 1}, {1, 1}}));
}

TEST_F(LabelValuesTest, ReadsNumbers) {
  EXPECT_EQ(values("a.tsv", "text\tlabel\na\t2.5\nb\t-1e-2\nc\t3\n", numbers_),
            (Values{{2.5f}, {-0.01f}, {3.0f}}));
  EXPECT_EQ(values("a.jsonl", "{\"text\": \"a\", \"label\": -4}\n", numbers_), (Values{{-4.0f}}));
}

TEST_F(LabelValuesTest, NamesLineOfWrongValue) {
  const std::string tsv = folder_ / "a.tsv", jsonl = folder_ / "a.jsonl";
  const std::string header = "text\tlabels\n";
  EXPECT_TRUE(names_all(error("a.tsv", header + "a\t0|3\n", sets_),
                        {tsv + ":2", "the label is 3", "0 to 2"}));
  EXPECT_TRUE(names_all(error("a.tsv", header + "a\t0|0\n", sets_),
                        {tsv + ":2", "the label \"0\" is given twice"}));
  EXPECT_TRUE(names_all(error("a.tsv", header + "a\t0||1\n", sets_), {tsv + ":2", "empty"}));
  EXPECT_TRUE(names_all(error("a.tsv", header + "a\tz\n", named_sets_),
                        {tsv + ":2", "\"z\"", "one of \"new york\", \"x\""}));
  EXPECT_TRUE(names_all(error("a.tsv", "text\tlabel\na\t1\n", sets_),
                        {tsv + ":1", "no column \"labels\"", "multi_label_classification"}));
  EXPECT_TRUE(names_all(error("a.tsv", header, {3}),
                        {tsv + ":1", "\"labels\"", "multi_label_classification"}));
  EXPECT_TRUE(names_all(error("a.jsonl", "{\"text\": \"a\", \"labels\": 1}", sets_),
                        {jsonl + ":1", "must be a list"}));
  EXPECT_TRUE(names_all(error("a.jsonl", "{\"text\": \"a\", \"label\": 1}", sets_),
                        {jsonl + ":1", "no field \"labels\"", "multi_label_classification"}));
  for (const char* wrong : {"", "x", "1,5", "nan", "inf", " 1"}) {
    EXPECT_TRUE(names_all(error("a.tsv", fmt::format("text\tlabel\na\t{}\n", wrong), numbers_),
                          {tsv + ":2", "must be a number", wrong}));
  }
  EXPECT_TRUE(names_all(error("a.tsv", "text\tlabel\na\t1e39\n", numbers_),
                        {tsv + ":2", "1e39", "beyond fp32's range"}));
  EXPECT_TRUE(names_all(error("a.jsonl", "{\"text\": \"a\", \"label\": \"1\"}", numbers_),
                        {jsonl + ":1", "is \"1\"", "must be a number"}));
}

TEST_F(LabelValuesTest, FindsLabelsInSets) {
  write_file(folder_ / "a.tsv", "text\tlabels\na\tred|blue\nb\t\nc\tgreen|red\n");
  const std::vector<std::string> paths = {folder_ / "a.tsv"};
  const Labels found = find_labels(paths, ProblemType::multi_label_classification);
  EXPECT_EQ(found.names, (std::vector<std::string>{"blue", "green", "red"}));
  write_file(folder_ / "a.tsv", "text\tlabels\na\t\n");
  EXPECT_TRUE(
      names_all(error_of([&] { find_labels(paths, ProblemType::multi_label_classification); }),
                {"a.tsv", "no text has a label"}));
}

/// Whatever bytes a file has, reading it may only throw Error.
TEST_F(LabeledLinesTest, SurvivesEveryByteReplacedByExtremes) {
  const std::vector<std::pair<std::string, std::string>> files = {
      {"a.jsonl", "{\"text\": \"a\\u00e9\", \"text_pair\": \"b\", \"label\": 1}\n"},
      {"a.tsv", "text\tlabel\ttext_pair\nab\t1\tc\n"}};
  for (const auto& [name, bytes] : files) {
    for (size_t i = 0; i < bytes.size(); ++i) {
      for (const char c : {'\0', '\n', '\r', '\t', '"', '{', '9', '\xff'}) {
        std::string broken = bytes;
        broken[i] = c;
        try {
          EXPECT_LE(lines(name, broken).size(), 3u);
        } catch (const Error&) {  // expected
        }
      }
    }
  }
}

constexpr int64_t kSeqLength = 8;

ClassificationEncoder encoder(bool truncate, int64_t seq_length = kSeqLength) {
  return {encode_bytes, test_vocabulary(1000), seq_length, truncate};
}

TEST(ClassificationEncoder, PutsSpecialTokensAroundTexts) {
  Sample sample;
  sample.labels = {7};
  EXPECT_FALSE(encoder(false).encode("abc", std::nullopt, "here", sample));
  EXPECT_EQ(sample.tokens, (Tokens{kStart, 100, 101, 102, kEnd}));
  EXPECT_EQ(sample.token_types, (Tokens{0, 0, 0, 0, 0}));
  EXPECT_EQ(sample.targets, (Tokens{-1, -1, -1, -1, -1}));
  EXPECT_EQ(sample.document_lengths, (Tokens{5}));
  EXPECT_TRUE(sample.labels.empty());
  EXPECT_FALSE(encoder(false).encode("abc", "de", "here", sample));
  EXPECT_EQ(sample.tokens, (Tokens{kStart, 100, 101, 102, kEnd, 103, 104, kEnd}));
  EXPECT_EQ(sample.token_types, (Tokens{0, 0, 0, 0, 0, 1, 1, 1}));
}

TEST(ClassificationEncoder, TruncatesLongerTextFirstWhenAllowed) {
  Sample sample;
  EXPECT_TRUE(names_all(
      error_of([&] { encoder(false).encode("abcdefg", std::nullopt, "data.tsv:7", sample); }),
      {"data.tsv:7", "9 tokens", "seq_length is 8", "data.truncate=true"}));
  EXPECT_FALSE(encoder(true).encode("abcdef", std::nullopt, "here", sample));
  EXPECT_TRUE(encoder(true).encode("abcdefg", std::nullopt, "here", sample));
  EXPECT_EQ(sample.tokens, (Tokens{kStart, 100, 101, 102, 103, 104, 105, kEnd}));
  for (size_t a = 1; a < 12; ++a) {
    for (size_t b = 1; b < 12; ++b) {
      for (const int64_t seq_length : {5, 8, 9}) {
        size_t a_left = a, b_left = b;
        while (a_left + b_left + 3 > static_cast<size_t>(seq_length)) {
          --(a_left >= b_left && !(a_left == b_left) ? a_left : b_left);
        }
        const bool truncated =
            encoder(true, seq_length).encode(std::string(a, 'a'), std::string(b, 'b'), "", sample);
        EXPECT_EQ(truncated, a_left + b_left < a + b);
        EXPECT_EQ(std::ranges::count(sample.tokens, 100), static_cast<int64_t>(a_left));
        EXPECT_EQ(std::ranges::count(sample.tokens, 101), static_cast<int64_t>(b_left));
        EXPECT_EQ(std::ranges::count(sample.token_types, 1), static_cast<int64_t>(b_left) + 1);
      }
    }
  }
}

TEST(ClassificationEncoder, RejectsInvalidArguments) {
  Sample sample;
  EXPECT_TRUE(
      names_all(error_of([&] { encoder(true).encode("", std::nullopt, "a.tsv:2", sample); }),
                {"a.tsv:2: the text has no tokens"}));
  EXPECT_TRUE(names_all(error_of([&] { encoder(true).encode("a", "", "a.tsv:2", sample); }),
                        {"a.tsv:2: the text_pair has no tokens"}));
  EXPECT_TRUE(names_all(error_of([] { encoder(true, 4); }), {"seq_length is 4", "at least 5"}));
  VocabularyTraits bytes;
  bytes.vocab_size = 257;
  EXPECT_TRUE(names_all(error_of([&] { ClassificationEncoder(encode_bytes, bytes, 8, true); }),
                        {"classification", "[CLS]", "[SEP]", "wordpiece"}));
}

TEST(TextDataset, SplitsTextsBetweenTrainingAndEvaluation) {
  const TestFolder folder;
  std::string lines = "text\ttext_pair\tlabel\n";
  for (int i = 0; i < 100; ++i) {  // sorted by label
    lines += std::string(1, static_cast<char>('a' + i % 26)) + "\t" +
             std::string(static_cast<size_t>(1 + i / 20), 'z') + "\t" +
             std::to_string(i < 50 ? 0 : 1) + "\n";
  }
  write_file(folder / "texts.tsv", lines);
  const auto texts = read_labeled(folder / "texts.tsv", Labels{2}, encoder(true, 7));
  EXPECT_EQ(texts->size(), 100);
  EXPECT_EQ(texts->num_truncated(), 40);  // those with 4 or 5 times z: 3 fit
  const TextDataset train(texts, {0, 80}), eval(texts, {80, 100});
  EXPECT_EQ(train.num_samples(), 80);
  EXPECT_EQ(train.seq_length(), 7);
  std::vector<Tokens> expected, found;
  Sample sample;
  for (int64_t i = 0; i < texts->size(); ++i) {
    texts->fill(i, sample);
    EXPECT_EQ(sample.labels, Tokens{i < 50 ? 0 : 1});
    EXPECT_EQ(sample.tokens[1], 100 + i % 26);
    EXPECT_EQ(sample.token_types[2], 0);
    EXPECT_EQ(sample.token_types[3], 1);
    sample.tokens.push_back(sample.labels[0]);
    expected.push_back(sample.tokens);
  }
  for (const TextDataset* part : {&train, &eval}) {
    int64_t first_label = 0;
    for (int64_t i = 0; i < part->num_samples(); ++i) {
      part->fill(i, 0, sample);
      if (sample.labels[0] == 0) ++first_label;
      sample.tokens.push_back(sample.labels[0]);
      found.push_back(sample.tokens);
    }
    // Drawn without replacement, so the spread is narrower than that of coin tosses.
    EXPECT_TRUE(within_5_sigma(first_label, part->num_samples(), 0.5));
  }
  std::ranges::sort(expected);
  std::ranges::sort(found);
  EXPECT_EQ(found, expected);

  EXPECT_THROW(eval.fill(20, 0, sample), Error);
  EXPECT_THROW(eval.fill(-1, 0, sample), Error);
  EXPECT_THROW(TextDataset(texts, {0, 101}), Error);
  EXPECT_TRUE(names_all(error_of([&] {
                          TextDataset(texts, {5, 5});
                        }),
                        {"texts.tsv", "[5, 5)", "100"}));
  write_file(folder / "none.tsv", "text\tlabel\n");
  EXPECT_TRUE(
      names_all(error_of([&] { read_labeled(folder / "none.tsv", Labels{2}, encoder(true)); }),
                {"none.tsv", "no text"}));
  write_file(folder / "long.tsv", "text\tlabel\nab\t0\nabcdefghi\t1\n");
  EXPECT_TRUE(
      names_all(error_of([&] { read_labeled(folder / "long.tsv", Labels{2}, encoder(false)); }),
                {"long.tsv:3", "11 tokens", "8"}));
}

}  // namespace
}  // namespace tessera
