#include "launch/tokenizers/id_tokenizer.h"

#include "launch/tokenizers/tokenizer_identity.h"
#include "tests/launch/data/test_files.h"

namespace tessera {
namespace {

using Ids = std::vector<int32_t>;

TEST(ParseIds, SplitsAtWhiteSpace) {
  const std::pair<const char*, Ids> cases[] = {
      {"", {}}, {" \r\n\t", {}}, {"0", {0}}, {" 3 1\t4\n007 9\r\n", {3, 1, 4, 7, 9}}};
  for (const auto& [text, ids] : cases) EXPECT_EQ(parse_ids(text, 10, "here"), ids) << text;
}

TEST(ParseIds, NamesFirstWordThatIsNoId) {
  const std::pair<const char*, const char*> cases[] = {{"1 -1", "word 2 is \"-1\""},
                                                       {"10", "word 1 is \"10\""},
                                                       {"1 2 x3", "word 3 is \"x3\""},
                                                       {"1,2", "word 1 is \"1,2\""},
                                                       {"1.0", "word 1 is \"1.0\""},
                                                       {"+1", "word 1 is \"+1\""},
                                                       {"99999999999999999999", "word 1 is \"99"}};
  for (const auto& [text, fact] : cases) {
    EXPECT_TRUE(names_all(error_of([&, &ids = text] { parse_ids(ids, 10, "here:7"); }),
                          {"here:7: ", fact, "must be an id from 0 to 9", "has 10 ids"}));
  }
}

TEST(IdTokenizer, TextIsIds) {
  const IdTokenizer tokenizer(50, {{"cls", 2}, {"sep", 3}, {"eos", 1}});
  EXPECT_EQ(tokenizer.encode("7 49"), (Ids{7, 49}));
  EXPECT_THROW(tokenizer.encode("7 50"), Error);
  EXPECT_EQ(tokenizer.decode(Ids{2, 7, 1, 49, 3}), "7 1 49");
  EXPECT_EQ(tokenizer.token_text(2), "2");
  EXPECT_TRUE(names_all(error_of([&] { tokenizer.token_text(50); }), {"none", "50", "0 to 49"}));
  EXPECT_EQ(tokenizer.last_cut("7 49"), 2u);
  EXPECT_EQ(tokenizer.last_cut("749"), 0u);
  EXPECT_EQ(to_string(identity_of(tokenizer)), "none (ids 0 to 49)");
}

TEST(IdTokenizer, KnowsItsSpecialTokens) {
  const IdTokenizer tokenizer(
      50, {{"cls", 2}, {"sep", 3}, {"mask", 4}, {"pad", 0}, {"unk", 5}, {"eos", 1}});
  const SpecialTokens special = tokenizer.special();
  EXPECT_EQ(special.start, 2);
  EXPECT_EQ(special.end, 3);
  EXPECT_EQ(special.mask, 4);
  EXPECT_EQ(special.padding, 0);
  EXPECT_EQ(special.unknown, 5);
  EXPECT_EQ(tokenizer.end_of_document(), 1);
  EXPECT_EQ(IdTokenizer(50).special().mask, std::nullopt);
  EXPECT_EQ(IdTokenizer(50).end_of_document(), std::nullopt);
  EXPECT_TRUE(names_all(error_of([] {
                          IdTokenizer(50, {{"mask", 50}});
                        }),
                        {"mask is 50", "ids are 0 to 49"}));
  EXPECT_TRUE(names_all(error_of([] {
                          IdTokenizer(50, {{"bos", 5}});
                        }),
                        {"no special token \"bos\"", "cls, sep, mask, pad, unk, eos"}));
}

TEST(IdTokenizer, RoundTripsThroughJson) {
  for (const SpecialTokenIds& special : {SpecialTokenIds{}, SpecialTokenIds{{"mask", 4}}}) {
    const IdTokenizer tokenizer(50, special);
    const auto again = tokenizer_from_json(tokenizer.to_json(), "here");
    EXPECT_TRUE(is_none(*again));
    EXPECT_EQ(again->to_json(), tokenizer.to_json());
    EXPECT_EQ(again->special().mask, tokenizer.special().mask);
  }
}

TEST(IdTokenizer, RejectsInvalidJson) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"kind":"none"})", "vocab_size"},
      {R"({"kind":"none","vocab_size":0})", "cannot have 0 ids"},
      {R"({"kind":"none","vocab_size":4294967296})", "cannot have 4294967296 ids"},
      {R"({"kind":"none","vocab_size":9,"special_tokens":{"mask":9}})", "\"mask\" is 9"},
      {R"({"kind":"none","vocab_size":9,"special_tokens":{"mask":-1}})", "\"mask\""},
      {R"({"kind":"none","vocab_size":9,"special_tokens":{"x":1}})", "no special token \"x\""},
      {R"({"kind":"none","vocab_size":9,"special_tokens":[1]})", "special_tokens"}};
  for (const auto& [text, fact] : cases) {
    const Json json = parse_json(text, "here");
    EXPECT_TRUE(names_all(error_of([&] { tokenizer_from_json(json, "here"); }), {"here", fact}));
  }
}

}  // namespace
}  // namespace tessera
