#include "launch/tools/attention/attention_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <string_view>

#include "launch/data/images/image_set.h"
#include "launch/support/text/base64.h"
#include "launch/tools/attention/heat_colors.h"
#include "launch/tools/attention/heat_png.h"
#include "tests/launch/tools/attention_report_fixture.h"
#include "tests/support/page_text.h"
#include "tests/support/test_folder.h"

namespace tessera {
namespace {

using test::between;
using test::count;
using test::json_in;
using testing::HasSubstr;
using testing::Not;

TEST(AttentionPage, EmbedsReportAsJson) {
  const AttentionReport report = test::causal_report({"the", "cat", "sat"}, 2, 3);
  EXPECT_EQ(json_in(to_html(report)), to_json(report));
}

TEST(AttentionPage, HasMapPerHeadAndLayerChoice) {
  const std::string page = to_html(test::causal_report({"the", "cat", "sat"}, 2, 3));
  EXPECT_EQ(count(page, "<svg class=\"map\""), 6u);
  EXPECT_EQ(count(page, "<input type=\"radio\""), 2u);
  EXPECT_EQ(count(page, " checked>"), 1u);
  EXPECT_THAT(page, HasSubstr("<figcaption>layer 1, head 2<"));
  // Each token on both axes.
  EXPECT_EQ(count(between(page, "<g class=\"labels\"", "</g>"), ">cat</text>"), 2u);
}

TEST(AttentionPage, HatchesHiddenCells) {
  const std::string page = to_html(test::causal_report({"the", "cat", "sat"}, 1, 1));
  // Above the diagonal: two cells of row 0 from column 1, and one of row 1 from column 2.
  EXPECT_EQ(between(page, "<path id=\"s0-hidden\" d=\"", "\""), "M1 0h2v1h-2zM2 1h1v1h-1z");
  EXPECT_THAT(page, HasSubstr("<use href=\"#s0-hidden\" fill=\"url(#s0-hatch)\"/>"));
  // Each visible cell has a number; hidden cells have none.
  EXPECT_EQ(count(page, "<text class=\"number\""), 6u);
}

TEST(AttentionPage, MarksUnseenTokens) {
  AttentionReport report = test::causal_report({"real", "[PAD]"}, 1, 1);
  report.sequences[0].attentions[0].hidden = {0, 1, 0, 1};
  report.sequences[0].attentions[0].heads[0].weights = {1, 0, 1, 0};
  const std::string page = to_html(report);
  EXPECT_EQ(count(page, "<li class=\"unseen\""), 1u);
  EXPECT_EQ(count(page, " class=\"unseen\">[PAD]</text>"), 2u);
}

TEST(AttentionPage, EscapesTokens) {
  const std::string script = "</script><script>alert(1)</script>";
  const std::string attribute = "\" onmouseover='alert(1)";
  const std::string comment = "<!-- <script>";
  AttentionReport report =
      test::causal_report({script, attribute, comment, "\xFF]]>", "&lt;", ""}, 1, 1);
  report.checkpoint = report.model = report.mask = script;
  const std::string page = to_html(report);
  // The page's own two: its data and its script.
  EXPECT_EQ(count(page, "<script"), 2u);
  EXPECT_EQ(count(page, "</script"), 2u);
  EXPECT_EQ(count(page, "<!--"), 0u);
  const std::string markup = page.substr(0, page.find("<script"));
  EXPECT_THAT(markup, HasSubstr("data-label=\"&quot;␣onmouseover=&#39;alert(1)\""));
  EXPECT_THAT(markup, Not(HasSubstr("onmouseover='")));
  EXPECT_THAT(page, HasSubstr("<dd>&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;</dd>"));
  EXPECT_EQ(json_in(page), to_json(report));
}

TEST(AttentionPage, DrawsTargetsDownAndSourcesAcross) {
  const AttentionReport report = test::cross_report({"May", "3"}, {"0", "5", "<b>"});
  const std::string page = to_html(report);
  EXPECT_EQ(json_in(page), to_json(report));
  EXPECT_THAT(page, HasSubstr("<h3>Cross-attention <small>queries: target, down; keys: source, "
                              "across</small></h3>"));
  EXPECT_THAT(page, HasSubstr(">source →</text>"));
  EXPECT_THAT(page, HasSubstr(">target ↓</text>"));
  EXPECT_THAT(page, HasSubstr("<ol class=\"text\" data-name=\"source\">"));
  EXPECT_THAT(page, HasSubstr("<ol class=\"text\" data-name=\"target\">"));
  const std::string labels = between(page, "<g class=\"labels\"", "</g>");
  EXPECT_EQ(count(labels, "text-anchor=\"end\""), 3u) << "queries";
  EXPECT_EQ(count(labels, "rotate("), 2u) << "keys";
  EXPECT_THAT(labels, HasSubstr(">&lt;b&gt;</text>"));
  EXPECT_THAT(page, HasSubstr("<image id=\"s0-cross-i0\" width=\"2\" height=\"3\""));
  EXPECT_EQ(count(page, "<text class=\"number\""), 6u);
  EXPECT_THAT(page, HasSubstr("<path id=\"s0-cross-hidden\" d=\"\"/>"));
}

TEST(AttentionPage, DrawsHeadsOverImages) {
  AttentionReport report = test::causal_report({"class", "0,0", "0,1", "1,0", "1,1"}, 1, 2);
  AttendedImage& image = report.sequences[0].image;
  image.size = 4;
  image.patches = 2;
  image.has_class_token = true;
  image.colors.assign(48, 200);
  for (HeadAttention& head : report.sequences[0].attentions[0].heads) {
    std::ranges::copy(std::vector<float>{0.1f, 0.2f, 0.4f, 0.2f, 0.1f}, head.weights.begin());
  }
  report.sequences[0].attentions[0].hidden.assign(25, 0);
  const std::string page = to_html(report);
  EXPECT_EQ(count(page, "<svg class=\"over-image\""), 2u);
  EXPECT_THAT(page, HasSubstr("data-patches=\"2\" data-first=\"1\""));
  // The weights of the class token's row, of which 0.4 is the largest.
  EXPECT_EQ(count(page, heat_image_url({0.5f, 1.0f, 0.5f, 0.25f}, 2, 2)), 2u);
  EXPECT_THAT(page, HasSubstr(color_image_url(report.sequences[0].image.colors, 4, 4)));
}

TEST(AttentionPage, LoadsNoExternalResources) {
  const std::string page = to_html(test::causal_report({"a", "b"}, 1, 1));
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  EXPECT_EQ(count(page, "src=\""), 0u);
  EXPECT_EQ(count(page, "url("), count(page, "url(#"));
  EXPECT_EQ(count(page, "http"),
            count(page, "http-equiv") + count(page, "http://www.w3.org/2000/svg"));
}

TEST(AttentionPage, ShowsSequencesSeparately) {
  AttentionReport report = test::causal_report({"a", "b"}, 1, 1);
  report.sequences.push_back(test::causal_report({"c"}, 1, 1).sequences[0]);
  report.sequences.push_back({});
  const std::string page = to_html(report);
  EXPECT_EQ(count(page, "<section"), 3u);
  EXPECT_THAT(page, HasSubstr("id=\"s1-hidden\""));
  EXPECT_THAT(page, HasSubstr("There is nothing to attend to."));
}

TEST(HeatColors, GrowDarkerWithWeight) {
  EXPECT_EQ(color_index(0.0f), 0);
  EXPECT_EQ(color_index(0.25f), 128);
  EXPECT_EQ(color_index(1.0f), 255);
  int before = 3 * 256;
  for (int i = 0; i < 256; ++i) {
    const Color color = heat_color(static_cast<uint8_t>(i));
    const int light = color.red + color.green + color.blue;
    EXPECT_LE(light, before) << i;
    before = light;
  }
  EXPECT_EQ(hex(heat_color(0)), "#f8fbfe");
  EXPECT_EQ(hex(heat_color(255)), "#082f6b");
}

TEST(HeatColors, ImageHasOnePixelPerWeight) {
  const std::string url = heat_image_url({1.0f, 0.0f, 0.25f, 0.01f, 0.0f, 1.0f}, 2, 3);
  const std::string prefix = "data:image/png;base64,";
  ASSERT_EQ(url.substr(0, prefix.size()), prefix);
  const test::TestFolder folder;
  const std::string path = folder / "heat.png";
  std::ofstream(path, std::ios::binary) << from_base64(url.substr(prefix.size()), "url");
  const Pixels found = read_image_file(path, 3);
  EXPECT_EQ(found.rows, 2);
  std::vector<uint8_t> expected;
  for (const int index : {255, 0, 128, 26, 0, 255}) {
    const Color color = heat_color(static_cast<uint8_t>(index));
    expected.insert(expected.end(), {color.red, color.green, color.blue});
  }
  EXPECT_EQ(found.values, expected);
}

}  // namespace
}  // namespace tessera
