#include <random>

#include "data_test_files.h"
#include "launch/data/tokenizer.h"

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

TEST(ByteTokenizer, TheEndOfADocumentShowsAsNothing) {
  const ByteTokenizer tokenizer;
  EXPECT_EQ(tokenizer.vocab_size(), 257);
  EXPECT_EQ(tokenizer.end_of_document(), 256);
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{'a', 256, 'b', 256}), "ab");
}

TEST(ByteTokenizer, NamesATokenThatItDoesNotHave) {
  const ByteTokenizer tokenizer;
  EXPECT_TRUE(names_all(message_of([&] { tokenizer.decode(std::vector<int32_t>{257}); }),
                        {"byte", "257", "0 to 256"}));
  EXPECT_THROW(tokenizer.decode(std::vector<int32_t>{-1}), Error);
}

TEST(MakeTokenizer, KnowsItsNames) {
  for (const std::string_view name : tokenizer_names()) {
    EXPECT_EQ(make_tokenizer(name)->name(), name);
  }
  EXPECT_TRUE(names_all(message_of([] { make_tokenizer("bpe"); }), {"\"bpe\"", "one of: byte"}));
}

}  // namespace
}  // namespace tessera
