#include "launch/support/text/html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/support/text/utf8.h"

namespace tessera {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(ValidUtf8, ReplacesInvalidBytes) {
  EXPECT_EQ(valid_utf8("a\xFFz ü"), "a\uFFFDz ü");
  EXPECT_EQ(valid_utf8("\xF0\x9F\x98\x80"), "😀");
}

TEST(IncompleteUtf8, CountsTheBeginningOfACharacter) {
  const std::pair<std::string, size_t> cases[] = {
      {"", 0},           {"a", 0},        {"\u00e9", 0},       {"a\xc3", 1},
      {"\xe2\x82", 2},   {"\xe2", 1},     {"\u20ac", 0},       {"\xf0\x9f\x98", 3},
      {"\U0001F600", 0}, {"\xf0\x9f", 2}, {"\x80\x80\x80", 0}, {"\xc3\x28", 0},
      {"\xff", 0},       {"\xc0", 0},     {"\xe2\x82\xc3", 1}, {"\x9f\x98\x80\x80", 0}};
  for (const auto& [text, count] : cases) EXPECT_EQ(incomplete_utf8(text), count) << text;
}

TEST(EscapeHtml, EscapesAllSpecialCharacters) {
  EXPECT_EQ(escape_html("<a href=\"x\" id='y'>&amp;</a>"),
            "&lt;a href=&quot;x&quot; id=&#39;y&#39;&gt;&amp;amp;&lt;/a&gt;");
}

TEST(JsonForScript, CannotEndTheScript) {
  const Json json = {{"text", "</script><!--&"}};
  const std::string text = json_for_script(json);
  for (const char* part : {"<", ">", "&"}) EXPECT_THAT(text, Not(HasSubstr(part)));
  EXPECT_EQ(Json::parse(text), json);
}

TEST(PageStart, AllowsOnlyWhatThePageUses) {
  const std::string plain = page_start("<b>", "p {}");
  EXPECT_THAT(plain, HasSubstr("content=\"default-src 'none'; style-src 'unsafe-inline'\">"));
  EXPECT_THAT(plain, HasSubstr("<title>&lt;b&gt;</title>\n<style>p {}</style></head>\n<body>\n"));
  PageUses uses;
  uses.script = uses.data_images = true;
  EXPECT_THAT(page_start("", "", uses),
              HasSubstr("content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
                        "script-src 'unsafe-inline'\">"));
}

}  // namespace
}  // namespace tessera
