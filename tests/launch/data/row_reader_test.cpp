#include "launch/data/datasets/row_reader.h"

#include <gtest/gtest.h>

#include "launch/data/datasets/labeled_lines.h"
#include "launch/data/datasets/sft_lines.h"
#include "tests/launch/data/test_files.h"
#include "tests/support/test_folder.h"

namespace tessera {
namespace {

class RowFiles : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    write_file(folder_ / name, text);
    return folder_ / name;
  }

  /// "line:a|b" of each row with the columns a and, if there is one, b.
  std::vector<std::string> read(const std::string& name, const std::string& text,
                                const RowOptions& options = {}) const {
    RowReader rows(write(name, text), {{"a"}, {"b"}}, options);
    std::vector<std::string> found;
    while (rows.next()) {
      found.push_back(fmt::format("{}:{}|{}", rows.number(), rows.text("a"),
                                  rows.has("b") ? rows.text("b") : "-"));
    }
    EXPECT_FALSE(rows.next());
    return found;
  }

  test::TestFolder folder_;
};

TEST_F(RowFiles, ReadEachFormat) {
  const struct {
    const char *name, *text;
    std::vector<std::string> rows;
  } cases[] = {
      {"f.csv", "a,b\n1,2\n3,4", {"2:1|2", "3:3|4"}},
      {"f.csv",
       "\xEF\xBB\xBF"
       "b,a\r\n1,2\r\n",
       {"2:2|1"}},
      // RFC 4180: commas, line ends and quotation marks within a text.
      {"f.csv",
       "\"a\",b\n\"x, y\",\"one\ntwo\r\n\"\"3\"\"\"\n\"\",z\n",
       {"2:x, y|one\ntwo\r\n\"3\"", "5:|z"}},
      {"f.csv", "a,b\n5\" disk,\"\"\"\"\n", {"2:5\" disk|\""}},
      {"f.csv", "a,b\n,\n", {"2:|"}},
      {"f.csv", "a\n", {}},
      {"f.csv", "", {}},
      {"f.tsv", "a\tb\n\"1\"\t2,\"3\n", {"2:\"1\"|2,\"3"}},
      {"f.jsonl", "{\"a\": \"1\"}\n{\"a\": \"2\"}", {"1:1|-", "2:2|-"}},
      {"f.json", "{\"a\": \"1\"}\n{\"a\": \"2\"}", {"1:1|-", "2:2|-"}},
      {"f.json",
       "\n[\n  {\"a\": \"]},\\\"\",\n   \"b\": \"\\\\\"},\n {\"b\": \"{\", \"a\": \"2\"}\n]\n",
       {"3:]},\"|\\", "5:2|{"}},
      {"f.json", "[]", {}},
  };
  for (const auto& [name, text, rows] : cases) EXPECT_EQ(read(name, text), rows) << text;
}

TEST_F(RowFiles, MayHaveOtherColumnsAndNames) {
  std::vector<std::string> notes;
  EXPECT_EQ(read("f.csv", ",a,id\n0,x,7\n", {{}, &notes}), std::vector<std::string>{"2:x|-"});
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_TRUE(names_all(notes[0], {"f.csv", "columns \"\", \"id\" are not read"}));
  const RowOptions renamed = {{{"a", "sentence"}, {"b", "a"}}};
  EXPECT_EQ(read("f.jsonl", "{\"a\": \"2\", \"sentence\": \"1\"}", renamed),
            std::vector<std::string>{"1:1|2"});
  EXPECT_EQ(read("f.tsv", "a\tsentence\n2\t1\n", renamed), std::vector<std::string>{"2:1|2"});
  EXPECT_EQ(first_row(folder_ / "f.tsv", renamed.columns), Json({{"a", ""}, {"b", ""}}));
}

TEST_F(RowFiles, NameWrongRows) {
  const struct {
    const char *name, *text;
    std::initializer_list<std::string> facts;
  } cases[] = {
      {"f.csv", "a,b\n1\n", {"f.csv:2", "columns is 1", "names 2"}},
      {"f.csv", "a,b\n\"x\"y,2\n", {"f.csv:2", "column 1", "after its quotation marks"}},
      {"f.csv", "a,b\n1,\"x\n3,4\n", {"f.csv:2", "column 2", "no second one"}},
      {"f.csv", "a,b\n1,2\n\n3,4\n", {"f.csv:3", "empty"}},
      {"f.csv", "a;b\n1;2\n", {"f.csv:1", "no column \"a\"", "commas"}},
      {"f.csv", "a,a\n1,2\n", {"f.csv:1", "\"a\" appears twice"}},
      {"f.csv", "A,b\n1,2\n", {"f.csv:1", "\"A\", \"b\"", "data.columns={a: NAME}"}},
      // What pandas writes for a text with quotation marks.
      {"f.tsv", "a\tb\n1\t\"say \"\"hi\"\"\"\n", {"f.tsv:2", "column 2", "quotes", ".csv"}},
      {"f.json", "[{\"a\": \"1\"} {\"a\": \"2\"}]", {"f.json:1", "comma"}},
      {"f.json", "[{\"a\": \"1\"},\n]", {"f.json:2", "objects"}},
      {"f.json", "[{\"a\": \"1\"}", {"f.json:1", "comma or ]"}},
      {"f.json", "[{\"a\": \"1\"}]\nx", {"f.json:2", "nothing may follow"}},
      {"f.json", "[\n{\"a\": \"1}]", {"f.json:2", "JSON"}},
      {"f.json", "[1]", {"f.json:1", "objects"}},
      {"f.jsonl", "[{\"a\": \"1\"}]", {"f.jsonl", "a name in .json"}},
      {"f.jsonl", "{\"a\": null}", {"f.jsonl:1", "\"a\" must be a string, but is null"}},
      {"f.txt", "1\n", {"f.txt", ".csv or .tsv"}},
  };
  for (const auto& [name, text, facts] : cases) {
    EXPECT_TRUE(names_all(error_of([&, n = name, t = text] { read(n, t); }), facts)) << text;
  }
  const std::string zero = std::string("{\"a\": \"1\"}") + '\0' + "{}";
  EXPECT_TRUE(
      names_all(error_of([&] { read("f.jsonl", zero); }), {"f.jsonl:1", "byte 11 is zero"}));
  EXPECT_TRUE(names_all(error_of([&] {
                          read("f.csv", "a\n1\n", {{{"b", "x"}}});
                        }),
                        {"f.csv:1", "no column \"x\"", "data.columns"}));
  EXPECT_TRUE(names_all(error_of([&] {
                          read("f.csv", "a\n1\n", {{{"label", "x"}}});
                        }),
                        {"f.csv", "label", "the columns are a, b"}));
}

/// Whatever bytes a file has, reading it may only throw Error.
TEST_F(RowFiles, SurviveEveryByteReplacedByExtremes) {
  const std::pair<const char*, std::string> files[] = {
      {"f.csv", "a,b\n\"1\",\"2\"\"\"\n"}, {"f.json", "[{\"a\": \"1\"}, {\"a\": \"\\\\\"}]"}};
  for (const auto& [name, bytes] : files) {
    for (size_t i = 0; i <= bytes.size(); ++i) {
      for (const char c : {'\0', '\n', '\r', ',', '"', '{', ']', '\\', '\xff'}) {
        std::string broken = bytes;
        i < bytes.size() ? void(broken[i] = c) : broken.resize(i / 2);
        try {
          EXPECT_LE(read(name, broken).size(), 3u);
        } catch (const Error&) {  // expected
        }
      }
    }
  }
}

/// "1 0 1" for each text.
std::vector<std::string> label_rows(const std::string& path, const Labels& labels) {
  std::vector<std::string> found;
  for_each_labeled_line(path, labels, [&](const LabeledLine& line) {
    std::string row;
    for (const float value : line.values) row += value == 1.0f ? '1' : '0';
    found.push_back(row);
  });
  return found;
}

TEST_F(RowFiles, LabelsMayBeMultiHot) {
  const auto jsonl = [](const std::vector<std::string>& lists) {
    std::string text;
    for (const std::string& list : lists) text += "{\"text\": \"a\", \"labels\": " + list + "}\n";
    return text;
  };
  using Rows = std::vector<std::string>;
  const struct {
    std::string name, text;
    int64_t count;
    Rows rows;
  } cases[] = {
      {"f.jsonl", jsonl({"[1, 0, 0]", "[0, 1, 1]"}), 3, {"100", "011"}},
      {"f.jsonl", jsonl({"[0.0, 1.0]", "[true, false]"}), 2, {"01", "10"}},
      // All lists of two: as numbers of labels they would say the same of all texts.
      {"f.jsonl", jsonl({"[1, 0]", "[0, 1]"}), 2, {"10", "01"}},
      {"f.jsonl", jsonl({"[1, 0]", "[0]"}), 2, {"11", "10"}},
      {"f.jsonl", jsonl({"[1, 0]", "[2, 1]"}), 3, {"110", "011"}},
      {"f.csv", "text,labels\na,\"[1, 0, 0]\"\nb,\"[0, 1, 1]\"\n", 3, {"100", "011"}},
      {"f.tsv", "text\tlabels\na\t[0, 2]\nb\t\n", 3, {"101", "000"}},
      {"f.tsv", "text\tlabels\na\t1|0|0\nb\t0|1|1\n", 3, {"100", "011"}},
  };
  const ProblemType several = ProblemType::multi_label_classification;
  for (const auto& [name, text, count, rows] : cases) {
    SCOPED_TRACE(text);
    const std::vector<std::string> paths = {write(name, text)};
    EXPECT_EQ(label_rows(paths[0], {count, {}, several}), rows);
    const Labels found = find_labels(paths, several);
    EXPECT_EQ(found.count, count);
    EXPECT_TRUE(found.names.empty());
  }
  const std::string wrong = write("f.jsonl", jsonl({"[1, 0, 1]", "[0, 1]"}));
  EXPECT_TRUE(names_all(error_of([&] {
                          label_rows(wrong, {3, {}, several});
                        }),
                        {"f.jsonl:1", "1"}));
  const std::string one = write("f.tsv", "text\tlabel\na\t[1, 0]\n");
  EXPECT_TRUE(names_all(error_of([&] { find_labels(std::vector{one}); }),
                        {"f.tsv:2", "multi_label_classification"}));
}

TEST_F(RowFiles, FineTuningHasTheFormatsOfOtherPrograms) {
  using Found = std::vector<std::string>;
  const struct {
    const char *name, *text;
    Found found;
  } cases[] = {
      {"f.json",
       "[{\"instruction\": \"Add.\", \"input\": \"1 2\", \"output\": \"3\", \"text\": \"x\"},\n"
       " {\"instruction\": \"Hi\", \"input\": \"\", \"output\": \"Ho\"}]",
       {"user:Add.\n1 2 assistant:3", "user:Hi assistant:Ho"}},
      {"f.csv", "output,instruction\nb,a\n", {"user:a assistant:b"}},
      {"f.csv", "id,prompt,completion\n1,\"a,\nb\",c\n", {"user:a,\nb assistant:c"}},
      {"f.json",
       R"([{"id": "1", "conversations": [{"from": "system", "value": "s"},)"
       R"({"from": "human", "value": "u"}, {"from": "gpt", "value": "a"}]}])",
       {"system:s user:u assistant:a"}},
      {"f.jsonl",
       R"({"prompt": "u", "prompt_id": "7", "messages": [{"role": "user", "content": "u"},)"
       R"({"role": "assistant", "content": "a"}]})",
       {"user:u assistant:a"}},
  };
  for (const auto& [name, text, expected] : cases) {
    SCOPED_TRACE(text);
    Found found;
    for_each_sft_line(write(name, text), [&](const SftLine& line) {
      std::string row;
      for (const Message& message : line.messages) {
        row += fmt::format("{}{}:{}", row.empty() ? "" : " ",
                           kRoleNames[static_cast<size_t>(message.role)], message.text);
      }
      found.push_back(row);
    });
    EXPECT_EQ(found, expected);
  }
}

}  // namespace
}  // namespace tessera
