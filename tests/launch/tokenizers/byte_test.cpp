#include <random>

#include "launch/tokenizers/byte_tokenizer.h"
#include "tests/launch/data/test_files.h"

namespace tessera {
namespace {

TEST(ByteTokenizer, RoundTripsAnyBytes) {
  const ByteTokenizer tokenizer;
  std::string text;
  for (int byte = 0; byte < 256; ++byte) text.push_back(static_cast<char>(byte));
  std::mt19937 random(1);
  for (int i = 0; i < 10000; ++i) text.push_back(static_cast<char>(random()));
  const std::vector<int32_t> tokens = tokenizer.encode(text);
  ASSERT_EQ(tokens.size(), text.size());
  EXPECT_EQ(tokens[255], 255);
  EXPECT_EQ(tokenizer.decode(tokens), text);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("")), "");
}

TEST(ByteTokenizer, DecodesEndOfDocumentAsNothing) {
  const ByteTokenizer tokenizer;
  EXPECT_EQ(tokenizer.vocab_size(), 257);
  EXPECT_EQ(tokenizer.end_of_document(), 256);
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{'a', 256, 'b', 256}), "ab");
}

TEST(ByteTokenizer, NamesTokenOutsideVocabulary) {
  const ByteTokenizer tokenizer;
  EXPECT_TRUE(names_all(error_of([&] { tokenizer.decode(std::vector<int32_t>{257}); }),
                        {"byte", "257", "0 to 256"}));
  EXPECT_THROW(tokenizer.decode(std::vector<int32_t>{-1}), Error);
}

TEST(ByteTokenizer, PrintsSingleTokens) {
  const ByteTokenizer tokenizer;
  EXPECT_EQ(tokenizer.token_text('a'), "a");
  EXPECT_EQ(tokenizer.token_text('\n'), "\\x0a");
  EXPECT_EQ(tokenizer.token_text(0xE9), "\\xe9");
  EXPECT_EQ(tokenizer.token_text(256), "[END]");
  EXPECT_THROW(tokenizer.token_text(257), Error);
}

TEST(ByteTokenizer, HasNoSpecialTokensAndNoWords) {
  const VocabularyTraits traits = ByteTokenizer().traits();
  EXPECT_EQ(traits.vocab_size, 257);
  EXPECT_FALSE(traits.special.mask.has_value());
  EXPECT_EQ(traits.continues_word, std::vector<bool>(257, false));
}

}  // namespace
}  // namespace tessera
