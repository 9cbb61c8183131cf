#include "launch/support/text/base64.h"

#include "tests/support/expect_error.h"

namespace tessera {
namespace {

TEST(Base64, MatchesRfc4648) {  // RFC 4648, section 10
  const std::pair<const char*, const char*> kPairs[] = {{"", ""},
                                                        {"f", "Zg=="},
                                                        {"fo", "Zm8="},
                                                        {"foo", "Zm9v"},
                                                        {"foob", "Zm9vYg=="},
                                                        {"fooba", "Zm9vYmE="},
                                                        {"foobar", "Zm9vYmFy"},
                                                        {"\xFF\xFE\xFB", "//77"}};
  for (const auto& [bytes, text] : kPairs) {
    EXPECT_EQ(to_base64(bytes), text);
    EXPECT_EQ(from_base64(text, "test"), bytes);
  }
}

TEST(Base64, RoundTripsAnyBytes) {
  std::string bytes;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(from_base64(to_base64(bytes), "test"), bytes);
    bytes += static_cast<char>(i * 7);
  }
}

TEST(Base64, RejectsInvalidText) {
  test::expect_error([] { from_base64("Zg=", "a file"); }, {"a file", "multiple of 4", "has 3"});
  test::expect_error([] { from_base64("Zg=a", "a file"); }, {"a file", "character 3"});
  test::expect_error([] { from_base64("Z===", "a file"); }, {"character 2"});
  test::expect_error([] { from_base64("Zm 9", "a file"); }, {"character 3"});
  test::expect_error([] { from_base64("Zm9-", "a file"); }, {"character 4"});
  test::expect_error([] { from_base64("Zh==", "a file"); }, {"last base64 digit"});
  test::expect_error([] { from_base64("====", "a file"); }, {"character 1"});
}

}  // namespace
}  // namespace tessera
