// Compares with the Python package `tokenizers` (tests/parity/make_bpe_goldens.py).

#include <map>

#include "launch/tokenizers/huggingface_json.h"
#include "launch/tokenizers/text/bert_text.h"
#include "launch/tokenizers/text/byte_level_words.h"
#include "launch/tokenizers/tokenizer_identity.h"
#include "tests/launch/tokenizers/bpe_fixture.h"
#include "tests/launch/tokenizers/golden_texts.h"

namespace tessera {
namespace {

using Tokens = std::vector<int32_t>;

const Json& golden() {
  static const Json json = read_golden("bpe_golden.json");
  return json;
}

class BpeParity : public ::testing::TestWithParam<bool> {
 protected:
  bool add_prefix_space() const { return GetParam(); }
};

TEST_P(BpeParity, ProducesSameTokens) {
  Json file = golden().at("tokenizer.json");
  file["pre_tokenizer"]["add_prefix_space"] = add_prefix_space();
  const auto tokenizer = huggingface_tokenizer(file, "golden");
  const std::string key = add_prefix_space() ? "prefixed" : "ids";
  size_t tokens = 0;
  for (const Json& item : golden().at("cases")) {
    const std::string text = from_hex(item.at("hex").get<std::string>());
    const auto ids = item.at(key).get<Tokens>();
    EXPECT_EQ(tokenizer->encode(text), ids) << text;
    const bool gets_space = add_prefix_space() && !text.empty() && text[0] != ' ';
    EXPECT_EQ(tokenizer->decode(ids), (gets_space ? " " : "") + text);
    const std::string with_special = key + "_with_special";
    if (count_invalid_utf8(text) > 0) continue;
    EXPECT_EQ(tokenizer->encode_with_special(text), item.value(with_special, ids)) << text;
    tokens += ids.size();
  }
  EXPECT_GT(tokens, 4000u);
}

INSTANTIATE_TEST_SUITE_P(Tokenizer, BpeParity, ::testing::Bool(), [](const auto& tested) {
  return tested.param ? "WithPrefixSpace" : "Plain";
});

TEST(BpeParityFiles, DescribeSameTokenizer) {
  const TestFolder folder;
  write_file(folder / "vocab.json", golden().at("vocab.json").dump());
  write_file(folder / "merges.txt", golden().at("merges.txt").get<std::string>());
  Json file = golden().at("tokenizer.json");
  write_file(folder / "tokenizer.json", file.dump());
  const auto from_json = make_tokenizer("huggingface:" + (folder / "tokenizer.json"));
  EXPECT_EQ(from_json->kind(), "bpe");
  EXPECT_EQ(identity_of(*make_tokenizer("huggingface:" + folder.path().string())),
            identity_of(*from_json));

  // The form that earlier versions of the package wrote.
  for (Json& merge : file["model"]["merges"]) {
    merge = merge.at(0).get<std::string>() + " " + merge.at(1).get<std::string>();
  }
  file["model"].erase("type");
  file["pre_tokenizer"].erase("use_regex");
  EXPECT_EQ(identity_of(*huggingface_tokenizer(file, "old")), identity_of(*from_json));

  // A vocab.json does not say that <mask> absorbs the preceding space.
  for (Json& token : file["added_tokens"]) token["lstrip"] = false;
  EXPECT_EQ(identity_of(*make_tokenizer("bpe:" + folder.path().string())),
            identity_of(*huggingface_tokenizer(file, "plain")));
}

TEST(BpeParityWords, MatchForEveryCharacter) {
  const auto block = golden().at("block").get<uint32_t>();
  std::map<uint32_t, Fnv> hashes;
  for (uint32_t code = 0; code < 0x110000; ++code) {
    if (code == 0xD800) code = 0xE000;
    if (code == 0x40000) code = 0xE0000;  // planes without characters
    std::string c;
    append_utf8(c, code);
    const std::string text =
        "a" + c + "b1" + c + "2!" + c + "? " + c + c + "  " + c + " '" + c + "s'" + c;
    std::string line;
    for_each_byte_level_word(text, [&](std::string_view word) {
      line += fmt::format("{}{}", line.empty() ? "" : ",", word.size());
    });
    hashes[code / block].add(line + "\n");
  }
  ASSERT_GT(hashes.size(), 0x40000 / block);
  for (const auto& [index, hash] : hashes) {
    EXPECT_EQ(fmt::format("{:016x}", hash.value), golden().at("blocks").at(std::to_string(index)))
        << "block from character " << index * block;
  }
}

TEST(HuggingFaceParity, WordPieceMatchesForAllCaseAndAccentSettings) {
  const Json& expected = golden().at("wordpiece");
  for (const Json& item : expected.at("cases")) {
    Json file = expected.at("tokenizer.json");
    for (const char* key : {"lowercase", "strip_accents"}) file["normalizer"][key] = item.at(key);
    const auto tokenizer = huggingface_tokenizer(file, "golden");
    EXPECT_EQ(tokenizer->kind(), item.at("lowercase") == true ? "wordpiece" : "wordpiece-cased");
    const auto again = tokenizer_from_json(tokenizer->to_json(), "again");
    EXPECT_EQ(identity_of(*again), identity_of(*tokenizer));
    for (size_t i = 0; i < expected.at("texts").size(); ++i) {
      const std::string text = from_hex(expected.at("texts").at(i).get<std::string>());
      EXPECT_EQ(again->encode(text), item.at("ids").at(i).get<Tokens>())
          << text << file["normalizer"];
    }
  }
}

}  // namespace
}  // namespace tessera
