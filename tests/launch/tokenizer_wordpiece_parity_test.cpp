// Against what the Python package `tokenizers` makes (tests/parity/make_wordpiece_goldens.py).

#include <map>

#include "data_test_files.h"
#include "launch/tokenizer/bert_text.h"
#include "launch/tokenizer/wordpiece_tokenizer.h"

namespace tessera {
namespace {

using Tokens = std::vector<int32_t>;

const Json& golden() {
  static const Json json = [] {
    const std::string path = TESSERA_SOURCE_DIR "/tests/parity/wordpiece_golden.json";
    return parse_json(read_file(path), path);
  }();
  return json;
}

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

class WordPieceParity : public ::testing::TestWithParam<bool> {
 protected:
  bool cased() const { return GetParam(); }
  const Json& expected() const { return golden().at(cased() ? "wordpiece-cased" : "wordpiece"); }
};

TEST_P(WordPieceParity, TheSameTokensAndTheSameText) {
  const WordPieceTokenizer tokenizer(
      WordPieceVocabulary(expected().at("tokens").get<std::vector<std::string>>(), "golden"),
      cased());
  size_t tokens = 0;
  for (const Json& item : expected().at("cases")) {
    const std::string text = from_hex(item.at("hex").get<std::string>());
    const auto ids = item.at("ids").get<Tokens>();
    EXPECT_EQ(tokenizer.encode(text), ids) << text;
    EXPECT_EQ(tokenizer.decode(ids), item.at("shown").get<std::string>()) << text;
    const Tokens with_special = item.value("with_special", ids);
    EXPECT_EQ(tokenizer.encode_with_special(text), with_special) << text;
    tokens += ids.size();
  }
  EXPECT_GT(tokens, 700u);
}

void append_utf8(std::string& text, uint32_t code) {
  const auto byte = [&](uint32_t bits) { text.push_back(static_cast<char>(bits)); };
  if (code < 0x80) {
    byte(code);
    return;
  }
  if (code < 0x800) {
    byte(0xC0 | code >> 6);
  } else if (code < 0x10000) {
    byte(0xE0 | code >> 12);
    byte(0x80 | (code >> 6 & 0x3F));
  } else {
    byte(0xF0 | code >> 18);
    byte(0x80 | (code >> 12 & 0x3F));
    byte(0x80 | (code >> 6 & 0x3F));
  }
  byte(0x80 | (code & 0x3F));
}

/// FNV-1a with 64 bits.
struct Fnv {
  uint64_t value = 0xCBF29CE484222325;

  void add(std::string_view bytes) {
    for (const char c : bytes) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  }
};

TEST_P(WordPieceParity, TheSameWordsForEveryCharacterOfUnicode14) {
  std::map<uint32_t, Fnv> hashes;
  const auto block = golden().at("block").get<uint32_t>();
  for (const Json& range : golden().at("characters")) {
    for (auto code = range.at(0).get<uint32_t>(); code < range.at(1).get<uint32_t>(); ++code) {
      std::string text = "a";
      append_utf8(text, code);
      text += 'b';
      std::string line;
      for_each_bert_word(text, cased(), [&](std::string_view word) {
        line.append(line.empty() ? "" : " ").append(word);
      });
      hashes[code / block].add(line + "\n");
    }
  }
  ASSERT_EQ(hashes.size(), expected().at("blocks").size());
  for (const auto& [index, hash] : hashes) {
    EXPECT_EQ(fmt::format("{:016x}", hash.value), expected().at("blocks").at(std::to_string(index)))
        << "block from character " << index * block;
  }
}

INSTANTIATE_TEST_SUITE_P(Tokenizer, WordPieceParity, ::testing::Bool(),
                         [](const auto& tested) { return tested.param ? "Cased" : "Uncased"; });

TEST(WordPieceParityBytes, AsManyReplacedAsInPython) {
  const Json& texts = golden().at("not_utf8");
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(count_invalid_utf8(from_hex(texts.at(i).get<std::string>())),
              golden().at("replaced").at(i).get<int64_t>());
  }
}

}  // namespace
}  // namespace tessera
