// Compares tokenizers with the structure of published ones with the Python package `tokenizers`
// (tests/parity/make_published_goldens.py).

#include <map>

#include "launch/huggingface/export/export_tokenizer.h"
#include "launch/tokenizers/huggingface_json.h"
#include "launch/tokenizers/text/byte_level_words.h"
#include "launch/tokenizers/text/text_normalizer.h"
#include "launch/tokenizers/tokenizer_identity.h"
#include "models/architecture.h"
#include "tests/launch/tokenizers/golden_texts.h"

namespace tessera {
namespace {

using Tokens = std::vector<int32_t>;

const Json& golden() {
  static const Json json = read_golden("published_golden.json");
  return json;
}

class PublishedTokenizer : public ::testing::TestWithParam<size_t> {
 protected:
  const Json& item() const { return golden().at("tokenizers").at(GetParam()); }
  std::unique_ptr<Tokenizer> tokenizer() const {
    return huggingface_tokenizer(item().at("tokenizer.json"), "golden");
  }
};

TEST_P(PublishedTokenizer, ProducesSameTokens) {
  const auto again = tokenizer_from_json(tokenizer()->to_json(), "again");
  EXPECT_EQ(identity_of(*again), identity_of(*tokenizer()));
  size_t tokens = 0;
  for (size_t i = 0; i < golden().at("texts").size(); ++i) {
    const auto text = golden().at("texts").at(i).get<std::string>();
    const Json& expected = item().at("cases").at(i);
    const auto ids = expected.at("ids").get<Tokens>();
    const auto with_special = expected.value("with_special", ids);
    EXPECT_EQ(again->encode(text), ids) << text;
    EXPECT_EQ(again->encode_with_special(text), with_special) << text;
    EXPECT_EQ(again->decode(with_special), expected.value("decoded", text)) << text;
    tokens += ids.size();
  }
  EXPECT_GT(tokens, 2000u);
}

TEST_P(PublishedTokenizer, ExportReadsBack) {
  ModelConfig model;
  model.vocab_size = 10000;
  const auto original = tokenizer();
  const ExportedTokenizer exported = export_tokenizer(*original, model);
  EXPECT_EQ(exported.files.count("vocab.json"), 0u) << "it would be read as GPT-2's";
  const Json file = parse_json(exported.files.at("tokenizer.json"), "exported");
  EXPECT_EQ(identity_of(*huggingface_tokenizer(file, "exported")), identity_of(*original));
  for (const char* part : {"added_tokens", "decoder"}) {
    if (part == std::string("decoder") && file.at(part).at("type") == "ByteLevel") continue;
    EXPECT_EQ(file.at(part), item().at("tokenizer.json").at(part)) << part;
  }
}

TEST_P(PublishedTokenizer, CutKeepsTokens) {
  const auto tested = tokenizer();
  std::string all;
  for (const Json& text : golden().at("texts")) all += text.get<std::string>() + " ";
  const Tokens whole = tested->encode(all);
  bool found = false;
  for (size_t size = 1; size < all.size(); size += 13) {
    const size_t cut = tested->last_cut(std::string_view(all).substr(0, size));
    if (cut == 0) continue;
    found = true;
    Tokens parts = tested->encode(std::string_view(all).substr(0, cut));
    const Tokens rest = tested->encode(std::string_view(all).substr(cut));
    parts.insert(parts.end(), rest.begin(), rest.end());
    ASSERT_EQ(parts, whole) << "cut at " << cut;
  }
  const std::string name = item().at("name");
  const bool marks_start = name.rfind("llama2", 0) == 0 || name == "mistral" ||
                           name == "words with a mark" ||
                           name == "unigram with bytes";  // the text after a cut gets a mark
  EXPECT_EQ(found, !marks_start);
}

INSTANTIATE_TEST_SUITE_P(All, PublishedTokenizer,
                         ::testing::Range(size_t{0}, golden().at("tokenizers").size()),
                         [](const auto& tested) {
                           std::string name = golden().at("tokenizers").at(tested.param).at("name");
                           std::ranges::replace_if(
                               name, [](char c) { return c == ' ' || c == '-'; }, '_');
                           return name;
                         });

const Json& published(const std::string& name) {
  for (const Json& item : golden().at("tokenizers")) {
    if (item.at("name") == name) return item.at("tokenizer.json");
  }
  throw Error("no tokenizer " + name);
}

TEST(PublishedTokenizers, RejectUnsupportedSettingsOfCharacters) {
  const struct {
    const char* tokenizer;
    const char* pointer;
    Json value;
    std::initializer_list<std::string> facts;
  } cases[] = {
      {"llama2", "/normalizer/normalizers/0/prepend", "x", {"\"prepend\" is \"x\""}},
      {"llama2",
       "/normalizer/normalizers/1/content",
       "_",
       {"\"normalizer\" is \"Replace\"", "by it"}},
      {"llama2", "/normalizer/normalizers/1/type", "NFKC", {"\"normalizer\" is \"NFKC\""}},
      {"llama2", "/normalizer/extra", 1, {"\"normalizer\": has \"extra\""}},
      {"llama2", "/model/ignore_merges", true, {"\"ignore_merges\" is true, but only false"}},
      {"llama2", "/decoder", nullptr, {"\"decoder\" of a \"BPE\" model of characters must be"}},
      {"llama2", "/decoder/decoders/3/start", 2, {"\"decoder\"", "one space at the start"}},
      {"llama2", "/added_tokens/0/id", 4, {"the token \"<unk>\" is 0 here and 4 there"}},
      {"mistral", "/pre_tokenizer/replacement", "_", {"\"replacement\" is \"_\""}},
      {"mistral", "/pre_tokenizer/prepend_scheme", "last", {"\"prepend_scheme\" is \"last\""}},
      {"mistral", "/pre_tokenizer/type", "Digits", {"\"pre_tokenizer\" is \"Digits\""}},
      {"gemma", "/normalizer", nullptr, {"only supported after a normalizer that replaces them"}},
      {"gemma", "/pre_tokenizer/behavior", "Isolated", {"\"behavior\" is \"Isolated\""}},
      {"t5", "/model/unk_id", nullptr, {"\"unk_id\" is missing", "\"unk_token\""}},
      {"t5", "/model/unk_id", 420, {"the unknown piece 420"}},
      {"t5", "/model/vocab/3/1", "x", {"item 3 must be a piece and its score"}},
      {"t5", "/model/vocab/3/0", "<s>", {"the token \"<s>\" is 1 here and 3 there"}},
      {"t5", "/model/vocab", Json::array(), {"\"vocab\" is empty"}},
      {"t5", "/model/nbest_size", 5, {"\"nbest_size\" is 5"}},
      {"t5", "/normalizer/precompiled_charsmap", 5, {"must be a string, but is a number"}},
      {"t5", "/normalizer/precompiled_charsmap", "AAAA", {"its rules are damaged"}},
      {"t5", "/normalizer/type", "ByteLevel", {"\"normalizer\" is \"ByteLevel\""}},
      {"t5", "/pre_tokenizer/pretokenizers/0/type", "Digits", {"\"pre_tokenizer\" is"}},
      {"t5", "/pre_tokenizer/pretokenizers/1/prepend_scheme", "first", {"only \"never\" or"}},
      {"albert", "/normalizer/normalizers/6/pattern/Regex", "\\s+", {"\\s+", "are supported"}},
      {"unigram", "/decoder", nullptr, {"\"decoder\" of a \"Unigram\" model must be"}},
      {"unigram with bytes", "/decoder/decoders/1/type", "Other", {"\"ByteFallback\""}},
  };
  for (const auto& tested : cases) {
    Json file = published(tested.tokenizer);
    file[Json::json_pointer(tested.pointer)] = tested.value;
    const std::string message = error_of([&] { huggingface_tokenizer(file, "t.json"); });
    EXPECT_EQ(message.substr(0, 6), "t.json") << message;
    EXPECT_TRUE(names_all(message, tested.facts)) << tested.pointer;
  }
  Json file = published("mistral");
  file["model"]["vocab"].erase("<0x41>");
  EXPECT_TRUE(names_all(error_of([&] { huggingface_tokenizer(file, "t.json"); }),
                        {"t.json: ", "the number"}));
  file = published("mistral");
  file["model"]["vocab"]["<0x4>"] = file["model"]["vocab"]["<0x41>"];
  file["model"]["vocab"].erase("<0x41>");
  EXPECT_TRUE(names_all(error_of([&] { huggingface_tokenizer(file, "t.json"); }),
                        {"has no token \"<0x41>\"", "byte_fallback"}));
}

// Older files write these settings differently.
TEST(PublishedTokenizers, AcceptOlderForms) {
  Json file = published("words with a mark");
  const auto before = identity_of(*huggingface_tokenizer(file, "t.json"));
  file["pre_tokenizer"] = {
      {"type", "Metaspace"}, {"replacement", "\u2581"}, {"add_prefix_space", true}};
  EXPECT_EQ(identity_of(*huggingface_tokenizer(file, "t.json")), before);
  file = published("qwen2");
  const auto isolated = identity_of(*huggingface_tokenizer(file, "t.json"));
  file["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Removed";
  file["pre_tokenizer"]["pretokenizers"][0]["invert"] = true;
  EXPECT_EQ(identity_of(*huggingface_tokenizer(file, "t.json")), isolated);
}

TEST(PublishedTokenizers, RejectDamagedDescriptions) {
  const auto refused = [](const std::string& name, const char* key, const Json& value,
                          std::initializer_list<std::string> facts) {
    Json json = huggingface_tokenizer(published(name), "t.json")->to_json();
    json[key] = value;
    EXPECT_TRUE(names_all(error_of([&] { tokenizer_from_json(json, "c"); }), facts)) << key;
  };
  refused("modernbert", "added", {100000}, {"c: token 100000 is declared as added"});
  refused("modernbert", "special", {5}, {"is declared as special, but it is a byte or the result"});
  refused("modernbert", "normalizer", {"NFX"}, {"\"normalizer\" has a step \"NFX\""});
  refused("modernbert", "normalizer", {"NFKC"}, {"of BPE may not have NFKC"});
  refused("modernbert", "normalizer", {"Replace"}, {"c: a normalizer of byte-level BPE"});
  refused("modernbert", "normalizer", Json(17, "NFC"), {"has 17 steps, but at most 16"});
  refused("modernbert", "metaspace", "first", {"c: byte-level BPE has no"});
  refused("modernbert", "words", {"gpt5"}, {"c: \"words\": there is no rule \"gpt5\""});
  refused("llama2", "split_words", true, {"nothing makes a space one"});
  refused("llama2", "ignore_merges", true, {"BPE of characters has no \"ignore_merges\""});
  refused("llama2", "added", {0}, {"the token \"<unk>\" is both special and added"});
  refused("llama2", "split_spaces", true, {"only a unigram model has"});
  refused("t5", "unknown", 100000, {"c: has 420 scores, 423 tokens and the unknown piece 100000"});
  refused("t5", "scores", {1, "x"}, {"\"scores\": item 1 must be a number, but is a string"});
  refused("t5", "scores", Json::array(), {"\"scores\" is empty"});
  refused("t5", "metaspace", "first", {"must be \"never\" or \"always\" where words end"});
  refused("xlm-roberta", "normalizer", {"NFKC", "strip_left"}, {"only supported before \"NFKC\""});
  refused("t5", "byte_fallback", true, {"\"Metaspace\" does not join bytes"});
  refused("t5", "characters", false, {"a unigram model is one of characters"});
  refused("t5", "normalizer", Json::array({Json::array({"Precompiled", "AAAA"})}),
          {"its rules are damaged"});
  refused("t5", "normalizer", {"Precompiled"}, {"\"Precompiled\" has 0 parameters instead of 1"});
  refused("t5", "normalizer", Json::array({Json::array({"Replace", "", "x"})}),
          {"replaces \"\" by \"x\""});
  refused("t5", "normalizer", Json::array({Json::array()}), {"a step without a name"});
}

// With the ids of `tokenizers`: pieces of equal scores, and text whose characters are unknown but
// which is a piece, because scores are high.
TEST(PublishedTokenizers, UnigramScoresDecideAsInTokenizers) {
  Json file = published("unigram");
  file["added_tokens"] = Json::array();
  file["normalizer"] = file["pre_tokenizer"] = nullptr;
  Json& vocab = file["model"]["vocab"] = Json::array();
  const auto add = [&](const std::string& piece, double score) {
    vocab.push_back(Json::array({piece, score}));
  };
  add("<unk>", 20);
  add("a", 20);
  add("aa", 40);
  add("xyz", 22);
  const auto plain = huggingface_tokenizer(file, "t.json");
  for (int byte = 0; byte < 256; ++byte) add(fmt::format("<0x{:02X}>", byte), 21);
  file["model"]["byte_fallback"] = true;
  file["decoder"] = published("unigram with bytes")["decoder"];
  const auto bytes = huggingface_tokenizer(file, "t.json");
  const struct {
    const char* text;
    Tokens plain, bytes;
  } cases[] = {
      {"aaaaa", {1, 2, 2}, {1, 2, 2}},
      {"xyz", {3}, {3}},
      {"xyzz", {0}, {124, 125, 126, 126}},
      {"axyza", {1, 3, 1}, {1, 3, 1}},
      {"<unk>", {0}, {0}},
      {"z<unk>a", {0, 1}, {126, 64, 121, 114, 111, 66, 1}},
  };
  for (const auto& tested : cases) {
    EXPECT_EQ(plain->encode(tested.text), tested.plain) << tested.text;
    EXPECT_EQ(bytes->encode(tested.text), tested.bytes) << tested.text;
  }
}

TEST(PublishedTokenizers, KeepBytesThatAreNotUtf8) {
  const std::string text = "e\u0301 \xff\xfe caf\xc3 e\u0301\xe2\x82";
  const auto bytes = huggingface_tokenizer(published("modernbert"), "t.json");
  EXPECT_EQ(bytes->decode(bytes->encode(text)), "\u00e9 \xff\xfe caf\xc3 \u00e9\xe2\x82");
  EXPECT_EQ(bytes->count_invalid(text), 0);
  const auto characters = huggingface_tokenizer(published("mistral"), "t.json");
  EXPECT_EQ(characters->decode(characters->encode(text)),
            "e\u0301 \uFFFD\uFFFD caf\uFFFD e\u0301\uFFFD");
  EXPECT_EQ(characters->count_invalid(text), 4);
}

TEST(PublishedRules, MatchForEveryCharacter) {
  const auto block = golden().at("block").get<uint32_t>();
  std::map<uint32_t, Fnv> hashes;
  for (uint32_t code = 0; code < 0x110000; ++code) {
    if (code == 0xD800) code = 0xE000;
    if (code == 0x40000) code = 0xE0000;  // planes without characters
    std::string c;
    append_utf8(c, code);
    const std::string marked =
        c + "a" + c + "\u0301e\u0301" + c + " o\u0323" + c + "\u0323" + c + "\u0338" + c + "\u3099";
    std::string lines;
    for (const Normalization form :
         {Normalization::nfc, Normalization::nfd, Normalization::nfkc, Normalization::nfkd,
          Normalization::nmt, Normalization::lowercase, Normalization::strip_accents}) {
      lines += normalize(marked, {form}) + "\n";
    }
    const std::string text = "a" + c + "b1" + c + "23" + c + "4567!" + c + "? " + c + c + "  " + c +
                             "\n" + c + " '" + c + "s'" + c + "\r\n \n" + c + "\n";
    std::vector<WordRule> rules = {WordRule::qwen2,     WordRule::llama3, WordRule::o200k,
                                   WordRule::deepseek3, WordRule::digit,  WordRule::digits3,
                                   WordRule::cjk};
    if (code >= 0x20000) rules.resize(2);
    for (const WordRule rule : rules) {
      std::string line;
      for_each_word({&rule, 1}, text, [&](std::string_view word) {
        line += fmt::format("{}{}", line.empty() ? "" : ",", word.size());
      });
      lines += line + "\n";
    }
    hashes[code / block].add(lines);
  }
  ASSERT_GT(hashes.size(), 0x40000 / block);
  for (const auto& [index, hash] : hashes) {
    EXPECT_EQ(fmt::format("{:016x}", hash.value), golden().at("blocks").at(std::to_string(index)))
        << "block from character " << index * block;
  }
}

}  // namespace
}  // namespace tessera
