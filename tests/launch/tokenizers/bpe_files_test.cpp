#include "launch/tokenizers/text/vocabulary_file.h"
#include "launch/tokenizers/tokenizer_identity.h"
#include "tests/launch/tokenizers/bpe_fixture.h"

namespace tessera {
namespace {

const std::vector<std::string> kMerges = {"Ġ t", "h e", "Ġt he"};

/// The error for a folder with these two files.
std::string message_of_files(const std::string& vocabulary, const std::string& merges) {
  const TestFolder folder;
  write_file(folder / "vocab.json", vocabulary);
  write_file(folder / "merges.txt", merges);
  return error_of([&] { make_tokenizer("bpe:" + folder.path().string()); });
}

std::string message_of_merges(const std::string& merges) {
  return message_of_files(bpe_vocabulary_text(small_bpe(kMerges).tokens), merges);
}

std::string message_of_vocabulary(const std::string& vocabulary) {
  return message_of_files(vocabulary, "#version: 0.2\n");
}

TEST(BpeFiles, AreReadFromFolder) {
  const TestFolder folder;
  const BpeTokenizer tokenizer = small_bpe_tokenizer(kMerges);
  write_bpe_folder(folder / "gpt2", small_bpe(kMerges));
  EXPECT_EQ(identity_of(*make_tokenizer("bpe:" + (folder / "gpt2"))), identity_of(tokenizer));
  EXPECT_EQ(identity_of(*make_tokenizer("bpe:" + (folder / "gpt2/"))), identity_of(tokenizer));
  for (const char* merges : {"Ġ t\nh e\nĠt he", "#version: 0.2\r\nĠ t\r\nh e\r\nĠt he\r\n",
                             "#version: 0.2\nĠ t\nh e\nĠt he\n\n"}) {
    write_file(folder / "gpt2/merges.txt", merges);
    EXPECT_EQ(identity_of(*make_tokenizer("bpe:" + (folder / "gpt2"))), identity_of(tokenizer));
  }
  write_bpe_folder(folder / "gpt2", small_bpe({}));
  write_file(folder / "gpt2/merges.txt", "#version: 0.2");
  EXPECT_NE(make_tokenizer("bpe:" + (folder / "gpt2")), nullptr);
}

TEST(BpeFiles, RejectTruncatedMerges) {
  EXPECT_TRUE(names_all(
      message_of_merges("Ġ t\nh e\n"),
      {"vocab.json: the token \"\\u0120the\" is not made by a merge", "belong together"}));
  EXPECT_TRUE(
      names_all(message_of_merges(""), {"the token \"\\u0120t\" (and 2 more) is not made by a"}));
  // Tokens with special names need no declaration.
  const TestFolder folder;
  const std::vector<std::string> special = {"<s>", "[MASK]", "of words", "madeupword0000"};
  write_bpe_folder(folder / "bpe", small_bpe(kMerges, special));
  EXPECT_EQ(make_tokenizer("bpe:" + (folder / "bpe"))->to_json()["special"],
            (Json{259, 260, 261, 262}));
  BpeDescription said = small_bpe(kMerges, {"PAD"});
  EXPECT_TRUE(names_all(error_of([&] { BpeVocabulary{said}; }), {"\"PAD\" is not made by a"}));
  said.special = {259};
  EXPECT_TRUE(BpeVocabulary(said).is_special(259));
}

TEST(BpeFiles, NameMissingAndOversizedFiles) {
  const TestFolder folder;
  EXPECT_TRUE(names_all(error_of([&] { make_tokenizer("bpe:" + folder.path().string()); }),
                        {folder / "vocab.json", "No such file"}));
  write_file(folder / "vocab.json", bpe_vocabulary_text(small_bpe({}).tokens));
  EXPECT_TRUE(names_all(error_of([&] { make_tokenizer("bpe:" + folder.path().string()); }),
                        {folder / "merges.txt", "No such file"}));
  EXPECT_TRUE(names_all(error_of([&] { make_tokenizer("bpe:" + (folder / "vocab.json")); }),
                        {"vocab.json: is a file", "name the folder"}));
  for (const char* name : {"vocab.json", "merges.txt"}) {
    write_file(folder / "merges.txt", "");
    std::filesystem::resize_file(folder / name, kMaxVocabularyBytes + 1);
    EXPECT_TRUE(names_all(error_of([&] { make_tokenizer("bpe:" + folder.path().string()); }),
                          {folder / name, "has 67108865 bytes", "at most 67108864"}));
    write_file(folder / "vocab.json", bpe_vocabulary_text(small_bpe({}).tokens));
  }
}

TEST(BpeFiles, RejectTooManyValuesBeforeParsing) {
  EXPECT_TRUE(names_all(message_of_vocabulary(std::string(kMaxVocabularyItems + 1, ',')),
                        {"vocab.json: has 2097153 commas", "at most 2097152"}));
  EXPECT_TRUE(names_all(message_of_merges(std::string(kMaxVocabularyItems + 1, '\n')),
                        {"merges.txt: has 2097153 lines", "at most 2097152"}));
}

TEST(BpeFiles, RejectHostileMergesByLine) {
  EXPECT_TRUE(names_all(message_of_merges("#version: 0.2\nĠ t\nh\n"),
                        {"merges.txt: line 3: a merge is two tokens", "\"h\""}));
  for (const char* merge : {"h e r", " h", "h ", "h  e", " ", "", "h\te"}) {
    EXPECT_TRUE(names_all(message_of_merges(fmt::format("Ġ t\n{}\nh e\n", merge)),
                          {"merges.txt: line 2: a merge is two tokens"}));
  }
  EXPECT_TRUE(
      names_all(message_of_merges("Ġ t\nh e\nĠ t\n"),
                {"merges.txt: line 3: the merge ", "a duplicate of ", "merges.txt: line 1"}));
  EXPECT_TRUE(names_all(message_of_merges("x y\n"), {"line 1: the merge \"x y\" makes \"xy\"",
                                                     "not a token of ", "vocab.json"}));
  EXPECT_TRUE(names_all(message_of_merges("zz y\n"), {"line 1", "is of \"zz\""}));
  EXPECT_TRUE(names_all(message_of_merges("z \xff\n"), {"line 1", "not a token"}));
}

TEST(BpeFiles, RejectHostileVocabularies) {
  EXPECT_TRUE(names_all(message_of_vocabulary("[]"), {"vocab.json", "object", "array"}));
  EXPECT_TRUE(names_all(message_of_vocabulary("{"), {"vocab.json is not valid JSON"}));
  EXPECT_TRUE(names_all(message_of_vocabulary(std::string(100000, '[')), {"levels deep"}));
  EXPECT_TRUE(names_all(message_of_vocabulary("{}"), {"no token \"!\" for the byte 0x21"}));
  EXPECT_TRUE(names_all(message_of_vocabulary(R"({"a":0,"b":2})"),
                        {"the token \"b\" has the number 2", "there are 2 tokens", "0 to 1"}));
  EXPECT_TRUE(names_all(message_of_vocabulary(R"({"a":0,"b":0})"),
                        {"the tokens \"a\" and \"b\" both have the number 0"}));
  EXPECT_TRUE(names_all(message_of_vocabulary(R"({"a":0,"a":1})"), {"key \"a\" twice"}));
  for (const char* id : {"-1", "1.5", "\"1\"", "null", "9223372036854775808"}) {
    EXPECT_TRUE(names_all(message_of_vocabulary(fmt::format("{{\"a\":{}}}", id)),
                          {"the number of the token \"a\" must be an integer"}));
  }
  EXPECT_TRUE(names_all(message_of_vocabulary(R"({"a":2147483648})"), {"\"a\"", "below 2^31"}));
  auto tokens = small_bpe({}).tokens;
  tokens[10] = "";
  EXPECT_TRUE(names_all(message_of_vocabulary(bpe_vocabulary_text(tokens)), {"token 10 is empty"}));
  tokens[10] = "xyz";
  EXPECT_TRUE(names_all(message_of_vocabulary(bpe_vocabulary_text(tokens)),
                        {"no token \"+\" for the byte 0x2b"}));
}

TEST(BpeFiles, RejectMergesOutsideByteAlphabet) {
  auto tokens = small_bpe({}).tokens;
  tokens.insert(tokens.end(), {"狐", "狐a"});
  EXPECT_TRUE(names_all(message_of_files(bpe_vocabulary_text(tokens), "狐 a\n"),
                        {"vocab.json: the token ", "not in GPT-2's alphabet"}));
}

TEST(BpeJson, RejectsInvalidValues) {
  const Json good = small_bpe_tokenizer(kMerges).to_json();
  const auto message_with = [&](const char* key, const Json& value) {
    Json json = good;
    json[key] = value;
    return error_of([&] { tokenizer_from_json(json, "checkpoint"); });
  };
  for (const char* key : {"tokens", "merges", "special", "add_prefix_space"}) {
    EXPECT_TRUE(names_all(message_with(key, 7), {"checkpoint", key}));
    Json json = good;
    json.erase(key);
    EXPECT_TRUE(names_all(error_of([&] { tokenizer_from_json(json, "checkpoint"); }), {"no", key}));
  }
  EXPECT_TRUE(names_all(message_with("special", {1000}), {"token 1000", "only 260 tokens"}));
  EXPECT_TRUE(names_all(message_with("special", {0}), {"\"!\" is declared as special", "a byte"}));
  EXPECT_TRUE(names_all(message_with("special", {-1}), {"\"special\": item 0"}));
  EXPECT_TRUE(
      names_all(message_with("strip_left", {256}), {"declared as special", "result of a merge"}));
  EXPECT_TRUE(names_all(message_with("merges", {"h e", 7}), {"\"merges\": item 1", "number"}));
  EXPECT_TRUE(names_all(message_with("merges", {"h e", "he"}), {"checkpoint: merge 2: "}));
  EXPECT_TRUE(names_all(message_with("tokens", {"a", "a"}), {"tokens 0 and 1 are both \"a\""}));
}

}  // namespace
}  // namespace tessera
