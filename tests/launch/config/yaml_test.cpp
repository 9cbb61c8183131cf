#include <random>
#include <string>

#include "launch/config/validate.h"
#include "launch/config/values/yaml_reader.h"
#include "launch/config/write_config.h"
#include "tests/launch/config/support.h"

namespace tessera {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(ConfigYaml, TreeKeepsTextAndPositions) {
  const ConfigValue root = read_yaml({"x", "a: 1\nb: ['2', ~]\na: {}\n"});
  ASSERT_EQ(root.keys.size(), 3u);
  EXPECT_EQ(root.keys[2].text, "a");
  EXPECT_EQ(root.keys[2].position.line, 3);
  EXPECT_EQ(root.items[0].text, "1");
  EXPECT_FALSE(root.items[0].quoted);
  EXPECT_EQ(root.items[1].items[0].text, "2");
  EXPECT_TRUE(root.items[1].items[0].quoted);
  EXPECT_EQ(root.items[1].items[0].position.column, 5);
  EXPECT_EQ(root.items[1].items[1].kind, ConfigValue::Kind::null);
  EXPECT_EQ(root.items[2].kind, ConfigValue::Kind::map);
}

TEST(ConfigYaml, ReportsPositionOfSyntaxErrors) {
  EXPECT_THAT(load_error("a: 1\n}"), StartsWith("x.yaml:2:1: not valid YAML: "));
  EXPECT_THAT(load_error("run: {dir: a}}\n"), StartsWith("x.yaml:1:14: not valid YAML: "));
  EXPECT_THAT(load_error("run:\n  dir: a\n x: 3\n"), StartsWith("x.yaml:3:2: not valid YAML: "));
  EXPECT_THAT(load_error("run:\n  dir: \"a\" b\n"), StartsWith("x.yaml:2:12: not valid YAML: "));
  EXPECT_THAT(load_error("run: {dir: \"\\ud800\"}\n"), HasSubstr("not valid YAML: "));
  EXPECT_THAT(set_error("optimizer.betas=[0.9"),
              StartsWith("--set optimizer.betas=[0.9: not valid YAML: "));
}

TEST(ConfigYaml, RejectsMultilineText) {
  for (const char* yaml : {
           "run:\n  dir: \"runs/a\ndata:\n  train: x\n",  // yaml-cpp would close the quote here
           "run:\n  dir: 'it''s\n",
           "run:\n  dir: \"a \\\n    b\"\n",
           "run:\n  dir: runs/a\n    b\n  seed: 1\n",
           "run:\n  dir: |-\n    a\n",
           "run:\n  dir: >\n    a\n",
       }) {
    EXPECT_THAT(load_error(yaml), StartsWith("x.yaml:2:8: a text must end on its line")) << yaml;
  }
  const ConfigValue fine = read_yaml({"x", R"(["a\"b\\", 'c''d', '"', "'", 'e\'])"});
  ASSERT_EQ(fine.items.size(), 5u);
  EXPECT_EQ(fine.items[0].text, "a\"b\\");
  EXPECT_EQ(fine.items[1].text, "c'd");
  EXPECT_EQ(fine.items[4].text, "e\\");
}

TEST(ConfigYaml, RequiresSingleMapDocument) {
  EXPECT_THAT(load_error(""), StartsWith("x.yaml: the configuration is empty"));
  EXPECT_THAT(load_error("# only\n"), StartsWith("x.yaml: the configuration is empty"));
  EXPECT_THAT(load_error("---\n...\n"), StartsWith("x.yaml: the configuration is empty"));
  EXPECT_THAT(load_error("- 1\n"), StartsWith("x.yaml:1:1: a configuration is a map"));
  EXPECT_THAT(load_error("hello\n"), StartsWith("x.yaml:1:1: a configuration is a map"));
  EXPECT_THAT(load_error(kMinimal + "---\n" + kMinimal),
              StartsWith("x.yaml:5:1: a second YAML document"));
}

TEST(ConfigYaml, RejectsUnneededYamlFeatures) {
  EXPECT_THAT(load_error("run: &a {dir: x}\n"), StartsWith("x.yaml:1:6: anchors and aliases"));
  EXPECT_THAT(load_error("run: !!map {dir: x}\n"), StartsWith("x.yaml:1:6: the tag 'tag:yaml.org"));
  EXPECT_THAT(load_error("run: {dir: !!str x}\n"), StartsWith("x.yaml:1:12: the tag "));
  EXPECT_THAT(load_error("run: {dir: ! x}\n"), StartsWith("x.yaml:1:12: "));
  EXPECT_THAT(load_error("? [a]\n: 3\n"), StartsWith("x.yaml:1:3: a key is missing, or is a list"));
  EXPECT_THAT(load_error(": 3\n"), HasSubstr("a key is missing"));
  EXPECT_THAT(load_error("run: [[[[[[[[[]]]]]]]]]\n"), HasSubstr("nested deeper than 8 levels"));
}

TEST(ConfigYaml, RejectsInvalidUtf8AndControlCharacters) {
  EXPECT_THAT(load_error("run:\n  dir: \xff\n"),
              StartsWith("x.yaml:2:8: the byte \\xff is not UTF-8"));
  for (const char* bad : {"\x80", "\xc3", "\xc0\xaf", "\xe0\x80\x80", "\xed\xa0\x80",
                          "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xe2\x82"}) {
    EXPECT_THAT(load_error(std::string("run: {dir: ") + bad), HasSubstr("is not UTF-8")) << bad;
  }
  // yaml-cpp treats byte 4 as the end and would drop the rest.
  EXPECT_THAT(load_error(kMinimal + "\x04\nlog: {intervall: 1}\n"),
              StartsWith("x.yaml:5:1: the control character \\x04"));
  EXPECT_THAT(load_error(std::string("run: {dir: a\0b}", 15)), HasSubstr("\\x00"));
  EXPECT_THAT(load_error("run:\n\tdir: a\n"), StartsWith("x.yaml:2:1: a tab"));
  EXPECT_THAT(load_error("run:\n  dir: a\rb\n"), StartsWith("x.yaml:2:9: the control character"));
  EXPECT_EQ(parse_config("x", kMinimal, std::vector<std::string>{"run.dir=läuft/七"}).run.dir,
            "läuft/七");
  EXPECT_THAT(set_error("run.dir=\xff"), StartsWith("--set run.dir=\\xff: the byte"));
}

TEST(ConfigYaml, AcceptsWindowsLineEndings) {
  std::string yaml;
  for (const char c : kMinimal) yaml += c == '\n' ? "\r\n" : std::string(1, c);
  EXPECT_EQ(parse_config("x", yaml), parse_config("x", kMinimal));
}

TEST(ConfigYaml, MessagesAbbreviateHostileText) {
  const std::string message =
      load_error(kMinimal + "log: {\"\\e[2J" + std::string(900, 'k') + "\": 1}");
  EXPECT_THAT(message, HasSubstr("'log.\\x1b[2Jkkk"));
  EXPECT_LT(message.size(), 200u);
  EXPECT_LT(set_error("run.seed=" + std::string(5000, '9')).size(), 600u);
}

TEST(ConfigYaml, RejectsRepeatedTokens) {
  for (const std::string token :
       {"[", "{", "{a: ", "- ", "? ", "[{", "!a ", "&a ", "\"", "'",   "|",
        ">", "%", ": ",   ", ", "#",  "\n", "*a ", "a: ", "\\", "- - "}) {
    std::string yaml;
    while (yaml.size() + token.size() <= kMaxConfigBytes) yaml += token;
    EXPECT_THAT(load_error(yaml), StartsWith("x.yaml")) << token;
  }
  EXPECT_THAT(load_error(std::string(kMaxConfigBytes + 1, '#')), HasSubstr("longer than 65536"));
}

// A few hundred edits; tests/fuzz/fuzz_config.cpp tries many more.
TEST(ConfigYaml, MutatedFilesLoadOrThrowError) {
  const std::string seed = to_yaml(parse_config("x", kMinimal));
  const std::string alphabet = "[]{}:,-#&*!|>'\"%@`?\\ \n\t.0e~\xc3\x01";
  std::mt19937 random(7);
  int loaded = 0;
  for (int i = 0; i < 500; ++i) {
    std::string yaml = seed;
    for (int edits = 1 + static_cast<int>(random() % 3); edits > 0; --edits) {
      const size_t at = random() % yaml.size();
      if (random() % 2 == 0) {
        yaml[at] = alphabet[random() % alphabet.size()];
      } else {
        yaml.erase(at, 1 + random() % 3);
      }
    }
    try {
      const RunConfig config = parse_config("x", yaml);
      EXPECT_EQ(parse_config("x", to_yaml(config)), config) << yaml;
      ++loaded;
      validate(config, 1);
    } catch (const Error& error) {
      EXPECT_FALSE(std::string(error.what()).empty());
    }
  }
  EXPECT_GT(loaded, 0);
}

}  // namespace
}  // namespace tessera
