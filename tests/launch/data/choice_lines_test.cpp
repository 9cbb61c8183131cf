#include "launch/data/datasets/choice_lines.h"

#include <gtest/gtest.h>

#include "tests/launch/data/test_files.h"

namespace tessera {
namespace {

using Texts = std::vector<std::string>;

class ChoiceLines : public testing::Test {
 protected:
  std::vector<ChoiceLine> read(const std::string& text, const char* name = "q.jsonl") const {
    const std::string path = folder_ / name;
    write_file(path, text);
    std::vector<ChoiceLine> lines;
    for_each_choice_line(path, [&](const ChoiceLine& line) { lines.push_back(line); });
    return lines;
  }

  /// The error of a second line.
  std::string error(const std::string& line) const {
    const std::string good = R"({"question": "a", "choices": ["b", "c"], "answer": 0})";
    return error_of([&] { read(good + "\n" + line); });
  }

  TestFolder folder_;
};

TEST_F(ChoiceLines, ReadsBothFormats) {
  const auto lines = read(
      R"({"ind": 24, "activity_label": "Roof", "ctx_a": "A man. ", "ctx_b": "he", "ctx": "A man. He",)"
      R"( "split": "val", "split_type": "indomain", "label": "1", "endings": ["sings.", "flies."],)"
      R"( "source_id": "x"})"
      "\n"
      R"({"ctx_a": "A man.", "ctx_b": "he", "endings": ["a", "b", "ü"], "label": 2})"
      "\n"
      R"({"ctx_a": "A man.", "ctx_b": "", "endings": ["a", "b"], "label": 0})"
      "\n"
      R"({"id": 3, "question": "2 + 2 =", "choices": ["3", "4"], "answer": 1})"
      "\n"
      R"({"context": "", "choices": ["3", "4"], "answer": "0"})");
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[0].context, "A man. He");
  EXPECT_EQ(lines[0].choices, (Texts{"sings.", "flies."}));
  EXPECT_EQ(lines[0].answer, 1);
  EXPECT_EQ(lines[1].context, "A man. he");
  EXPECT_EQ(lines[1].answer, 2);
  EXPECT_EQ(lines[2].context, "A man.");
  EXPECT_EQ(lines[3].number, 4);
  EXPECT_EQ(lines[3].context, "2 + 2 =");
  EXPECT_EQ(lines[3].answer, 1);
  EXPECT_EQ(lines[4].context, "");
}

TEST_F(ChoiceLines, NamesWhatIsWrong) {
  EXPECT_TRUE(names_all(error_of([&] { read("", "q.tsv"); }), {"q.tsv", ".jsonl"}));
  EXPECT_TRUE(names_all(error("[1]"), {"q.jsonl:2", "one object"}));
  EXPECT_TRUE(names_all(error(R"({"question": "a", "answer": 0})"), {":2", "choices", "endings"}));
  EXPECT_TRUE(names_all(error(R"({"question": "a", "choices": ["b", "c"]})"), {":2", "answer"}));
  EXPECT_TRUE(names_all(error(R"({"choices": ["b", "c"], "answer": 0})"),
                        {":2", "neither", "question", "context"}));
  EXPECT_TRUE(
      names_all(error(R"({"question": "", "context": "", "choices": ["b", "c"], "answer": 0})"),
                {":2", "question", "context", "one of"}));
  EXPECT_TRUE(names_all(error(R"({"endings": ["b", "c"], "label": 0})"), {":2", "ctx", "ctx_a"}));
  EXPECT_TRUE(
      names_all(error(R"({"ctx_a": "", "endings": ["b", "c"], "label": 0})"), {":2", "\"ctx_b\""}));
  EXPECT_TRUE(
      names_all(error(R"({"ctx": "", "endings": ["b", "c"], "answer": 0})"), {":2", "\"label\""}));
  EXPECT_TRUE(names_all(error(R"({"question": 1, "choices": ["b", "c"], "answer": 0})"),
                        {":2", "\"question\"", "string", "number"}));
  EXPECT_TRUE(names_all(error(R"({"question": "a", "choices": {"text": []}, "answer": 0})"),
                        {":2", "list of texts", "object"}));
  EXPECT_TRUE(names_all(error(R"({"question": "a", "choices": ["b"], "answer": 0})"),
                        {":2", "1 choices", "2 to 1000"}));
  EXPECT_TRUE(names_all(error(R"({"question": "a", "choices": ["b", ""], "answer": 0})"),
                        {":2", "choice 1", "empty"}));
  EXPECT_TRUE(names_all(error(R"({"question": "a", "choices": ["b", null], "answer": 0})"),
                        {":2", "choice 1", "string", "null"}));
  for (const char* answer : {"2", "-1", "1.0", "\"\"", "\"2\"", "\"x\"", "18446744073709551615",
                             "true", "null", "[0]"}) {
    const std::string line = R"({"question": "a", "choices": ["b", "c"], "answer": )";
    EXPECT_TRUE(names_all(error(line + answer + "}"), {":2", "\"answer\" is ", "from 0 to 1"}))
        << answer;
  }
  EXPECT_TRUE(names_all(error(R"({"question": "a", "choices": ["b", "c"], "answer": "x\u001b"})"),
                        {R"("x\u001b")"}));
}

}  // namespace
}  // namespace tessera
