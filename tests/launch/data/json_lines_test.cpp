#include "launch/support/input/json_lines.h"

#include "tests/launch/data/test_files.h"

namespace tessera {
namespace {

using Names = std::vector<std::string>;

std::string field_of(std::string_view line, const std::string& field = "text") {
  std::string text;
  EXPECT_EQ(read_json_field(line, field, text), std::nullopt);
  return text;
}

std::string problem_of(std::string_view line) {
  std::string text;
  return read_json_field(line, "text", text).value_or("");
}

TEST(JsonField, DecodesEscapes) {
  EXPECT_EQ(field_of(R"({"text": "a\n\"b\" \u00e9 \ud83d\ude00 \u0000"})"),
            std::string("a\n\"b\" \xC3\xA9 \xF0\x9F\x98\x80 \0", 15));
  EXPECT_EQ(field_of("\xEF\xBB\xBF {\"text\": \"\"} \r"), "");
  EXPECT_EQ(field_of(R"({"a": {"text": 1}, "b": [{"text": "no"}], "text": "yes", "c": -1.5e3})"),
            "yes");
  EXPECT_EQ(field_of(R"({"text": 1, "b\u00e9": "x"})", "b\xC3\xA9"), "x");
}

TEST(JsonField, NamesErrors) {
  const auto refused = [](std::string_view line, std::initializer_list<std::string> facts) {
    return names_all(problem_of(line), facts);
  };
  EXPECT_TRUE(refused("{\"text\": \"a\"", {"not valid JSON, at byte 13: "}));
  EXPECT_TRUE(refused("{\"text\": \"a\"} {}", {"not valid JSON", "expected end of input"}));
  EXPECT_TRUE(refused("nothing", {"not valid JSON", "at byte 2"}));
  EXPECT_TRUE(refused("{\"text\": \"\xFF\"}", {"not valid JSON", "ill-formed UTF-8"}));
  EXPECT_TRUE(refused(R"({"text": "\ud83d"})", {"not valid JSON", "surrogate"}));
  EXPECT_TRUE(refused({"{\"text\": \"\"}\0{", 14}, {"byte 13 is zero"}));
  EXPECT_TRUE(refused("[1]", {"is an array, but must be a JSON object", "jq -c"}));
  EXPECT_TRUE(refused("12", {"is a number, but must be a JSON object"}));
  EXPECT_TRUE(refused("{}", {"has no field \"text\", but no field at all"}));
  EXPECT_TRUE(
      refused(R"({"title": 1, "Text": "a"})", {R"(has no field "text", but "title", "Text")"}));
  for (const auto& [value, type] : {std::pair{"1", "a number"},
                                    {"null", "null"},
                                    {"true", "a boolean"},
                                    {"[\"a\"]", "an array"},
                                    {"{}", "an object"}}) {
    EXPECT_TRUE(refused(fmt::format(R"({{"text": {}}})", value),
                        {"has a field \"text\" that must be a string, but is ", type}));
  }
  EXPECT_TRUE(refused(R"({"text": "a", "text": "b"})", {"has the field \"text\" twice"}));
  EXPECT_TRUE(refused(R"({"text": "a", "x": 1e999})",
                      {"has a number too large to read, \"1e999\"", "at byte 24"}));
  std::string deep = "{\"a\": " + std::string(100000, '[');
  EXPECT_TRUE(refused(deep, {"more than 32 levels deep"}));
}

TextLines lines(std::string text) { return {"file.jsonl", 7, std::move(text)}; }

TEST(JsonLinesText, EachLineIsADocument) {
  const JsonDocuments found = read_json_lines(
      lines("{\"text\": \"a\\nb\"}\n\n \t\r\n{\"text\": \"\"}\r\n{\"text\": \"c\"}"), {});
  EXPECT_EQ(found.text.text, "a\nbc");
  ASSERT_EQ(found.text.marks.size(), 3u);
  for (const size_t i : {0u, 1u, 2u}) {
    EXPECT_EQ(found.text.marks[i].ends, Mark::Ends::document);
    EXPECT_EQ(found.text.marks[i].at, i < 2 ? 3u : 4u);
  }
}

TEST(JsonLinesText, LinesOfTextAreSentences) {
  const JsonDocuments found = read_json_lines(lines("{\"text\": \"one\\n\\ntwo\\r\\n\"}\n"),
                                              {.sentences = Sentences::line});
  EXPECT_EQ(found.text.text, "onetwo");
  ASSERT_EQ(found.text.marks.size(), 2u);
  EXPECT_EQ(found.text.marks[0].at, 3u);
  EXPECT_EQ(found.text.marks[0].ends, Mark::Ends::sequence);
  EXPECT_EQ(found.text.marks[1].ends, Mark::Ends::document);
}

TEST(JsonLinesText, NamesOrSkipsMalformedLines) {
  const std::string text = "{\"text\": \"a\"}\n\n{\"text\": 1}\n{\n{\"text\": \"b\"}\n";
  EXPECT_TRUE(names_all(error_of([&] { read_json_lines(lines(text), {}); }),
                        {"file.jsonl:9: the line has a field \"text\"", "--skip-malformed"}));
  const JsonDocuments found = read_json_lines(lines(text), {.skip_malformed = true});
  EXPECT_EQ(found.text.text, "ab");
  EXPECT_EQ(found.malformed_lines, 2);
  EXPECT_TRUE(names_all(found.first_malformed, {"file.jsonl:9: "}));
}

}  // namespace
}  // namespace tessera
