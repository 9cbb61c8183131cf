#include "launch/tools/mask/mask_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/architecture.h"
#include "tests/support/page_text.h"

namespace tessera {
namespace {

using test::count;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

MaskView view_of(ModelKind kind, int64_t window, const std::vector<int64_t>& documents) {
  ModelConfig config = preset(kind);
  config.num_layers = 4;
  config.seq_length = 256;
  config.attention_window = window;
  config.window_pattern = "GL";
  return view_mask(config, documents);
}

TEST(MaskPage, DrawsEachKindOfLayer) {
  const std::string page = to_html(view_of(ModelKind::gpt2, 2, {3, 2}), "small.yaml");
  EXPECT_THAT(page, AllOf(HasSubstr("<h1>Attention masks of small.yaml</h1>"),
                          HasSubstr("5 tokens in 2 documents of 3, 2"),
                          HasSubstr("layers 0, 2 (2 of 4): causal<"),
                          HasSubstr("layers 1, 3 (2 of 4): causal, window of 2 tokens<"),
                          HasSubstr("9 of 25 pairs are visible (36.0 %)")));
  EXPECT_EQ(count(page, "<figure>"), 2U);
  // A rectangle for each row's range of visible keys, one unit per token: causal and windowed rows.
  EXPECT_EQ(count(page, "<rect class=\"seen\" x="), 2U * 5U);
  EXPECT_THAT(page, HasSubstr("<rect class=\"seen\" x=\"0\" y=\"2\" width=\"3\" height=\"1\"/>"));
  EXPECT_THAT(page, HasSubstr("<rect class=\"seen\" x=\"1\" y=\"2\" width=\"2\" height=\"1\"/>"));
  // The end of the first document.
  EXPECT_THAT(page, HasSubstr("<path class=\"ends\" d=\"M0 3H5M3 0V5\"/>"));
}

TEST(MaskPage, MarksTilesThatAreSkipped) {
  const std::string page = to_html(view_of(ModelKind::gpt2, 0, {256}), "long.yaml");
  EXPECT_THAT(page, HasSubstr("6 of 16 tiles of 64 × 64 are skipped"));
  // Of the first three rows of tiles, all after the diagonal.
  EXPECT_THAT(page,
              HasSubstr("<rect class=\"skipped\" x=\"64\" y=\"0\" width=\"192\" height=\"64\"/>"));
  EXPECT_EQ(count(page, "<rect class=\"skipped\""), 3U);
  EXPECT_THAT(page, HasSubstr("opacity"));  // cells of 4 × 4 pairs on the diagonal
}

TEST(MaskPage, HasBothStacksOfEncoderDecoder) {
  const std::string page = to_html(view_of(ModelKind::t5, 0, {20}), "t5.yaml");
  EXPECT_THAT(page, AllOf(HasSubstr("encoder, all 4 layers: nothing but other documents is hidden"),
                          HasSubstr("decoder, all 4 layers: causal")));
}

TEST(MaskPage, EscapesNamesAndLoadsNothing) {
  const std::string page =
      to_html(view_of(ModelKind::bert, 0, {9}), "<script>alert(1)</script>&\"");
  EXPECT_THAT(page, AllOf(HasSubstr("&lt;script&gt;alert(1)&lt;/script&gt;&amp;&quot;"),
                          HasSubstr("default-src 'none'"), Not(HasSubstr("<script")),
                          Not(HasSubstr("http:")), Not(HasSubstr("https:")),
                          HasSubstr("prefers-color-scheme: dark")));
}

}  // namespace
}  // namespace tessera
