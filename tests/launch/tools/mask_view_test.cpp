#include "launch/tools/mask/mask_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/architecture.h"
#include "models/attention_plane.h"
#include "tests/support/expect_error.h"

namespace tessera {
namespace {

using test::expect_error;
using testing::ElementsAre;
using testing::HasSubstr;

ModelConfig model(ModelKind kind) {
  ModelConfig config = preset(kind);
  config.num_layers = 4;
  config.seq_length = 256;
  return config;
}

TEST(MaskView, DrawsDocumentsAndWindow) {
  ModelConfig config = model(ModelKind::gpt2);
  config.attention_window = 2;
  config.window_pattern = "GL";
  EXPECT_EQ(to_string(view_mask(config, {3, 2})),
            "5 tokens in 2 documents of 3, 2\n"
            "a line is a query, a column a key: █ visible, · hidden\n"
            "\n"
            "layers 0, 2 (2 of 4): causal\n"
            "  █····\n"
            "  ██···\n"
            "  ███··\n"
            "  ···█·\n"
            "  ···██\n"
            "  9 of 25 pairs are visible (36.0 %)\n"
            "\n"
            "layers 1, 3 (2 of 4): causal, window of 2 tokens\n"
            "  █····\n"
            "  ██···\n"
            "  ·██··\n"
            "  ···█·\n"
            "  ···██\n"
            "  8 of 25 pairs are visible (32.0 %)\n");
}

TEST(MaskView, DrawsDocumentsThatAttendToEachOther) {
  const MaskView view = view_mask(model(ModelKind::gpt2), {3, 2}, false);
  EXPECT_EQ(view.kinds.at(0).visible, 15);
  EXPECT_THAT(describe_row(view), HasSubstr("2 documents of 3, 2, which attend to each other"));
}

TEST(MaskView, DrawsPlanesOfHeadsThatDiffer) {
  ModelConfig config = model(ModelKind::gpt2);
  config.seq_length = 4;
  const auto plane = std::make_shared<AttentionPlane>();
  plane->values = OwnedTensor({3, 4, 4}, DType::u8);
  plane->values.tensor.data<uint8_t>()[16 + 4] = 1;  // head 1, query 1, key 0
  config.attention_plane = plane;
  const MaskView view = view_mask(config, {2, 2});
  EXPECT_EQ(to_string(view),
            "4 tokens in 2 documents of 2, 2\n"
            "a line is a query, a column a key: █ visible, · hidden\n"
            "\n"
            "all 4 layers, heads 0, 2: causal, the mask of model.attention_mask_file\n"
            "  █···\n"
            "  ██··\n"
            "  ··█·\n"
            "  ··██\n"
            "  6 of 16 pairs are visible (37.5 %)\n"
            "\n"
            "all 4 layers, head 1: causal, the mask of model.attention_mask_file\n"
            "  █···\n"
            "  ·█··\n"
            "  ··█·\n"
            "  ···█\n"
            "  4 of 16 pairs are visible (25.0 %)\n");
  EXPECT_EQ(to_json(view)["layers"][0]["heads"], Json({0, 2}));
}

TEST(MaskView, DrawsPrefixGlobalTokensAndDilation) {
  ModelConfig prefix = model(ModelKind::gpt2);
  prefix.num_layers = 1;
  prefix.attention_prefix = 3;
  EXPECT_THAT(to_string(view_mask(prefix, {5, 2})), HasSubstr("causal, prefix of 3 tokens\n"
                                                              "  ███····\n"
                                                              "  ███····\n"
                                                              "  ███····\n"
                                                              "  ████···\n"
                                                              "  █████··\n"
                                                              "  ·····██\n"
                                                              "  ·····██\n"));
  ModelConfig longformer = model(ModelKind::bert);
  longformer.attention_window = 2;
  longformer.attention_dilation = 2;
  longformer.global_tokens = 1;
  EXPECT_THAT(to_string(view_mask(longformer, {7})),
              HasSubstr("window of 2 tokens on each side, with the token itself, 2 apart, 1 "
                        "global\n"
                        "  ███████\n"
                        "  ██·█···\n"
                        "  █·█·█··\n"
                        "  ██·█·█·\n"
                        "  █·█·█·█\n"
                        "  █··█·█·\n"
                        "  █···█·█\n"));
}

TEST(MaskView, CountsTilesOfLongRows) {
  const MaskView causal = view_mask(model(ModelKind::gpt2), {256});
  ASSERT_EQ(causal.kinds.size(), 1U);
  EXPECT_EQ(causal.cell, 4);
  EXPECT_EQ(causal.kinds[0].visible, 256 * 257 / 2);
  EXPECT_EQ(causal.kinds[0].tiles, 16);
  EXPECT_EQ(causal.kinds[0].skipped, 6);
  EXPECT_THAT(to_string(causal), HasSubstr("6 of 16 tiles of 64 × 64 are skipped"));
  EXPECT_THAT(to_string(causal), HasSubstr("▒"));
  const MaskView bert = view_mask(model(ModelKind::bert), {100, 128});
  EXPECT_EQ(bert.length, 228);
  EXPECT_EQ(bert.kinds[0].visible, 100 * 100 + 128 * 128);
  const Json json = to_json(bert);
  EXPECT_EQ(json["layers"][0]["visible"], 26384);
  EXPECT_EQ(json["layers"][0]["counts"].size(), 57U);
  EXPECT_THAT(bert.kinds[0].layers, ElementsAre(0, 1, 2, 3));
}

TEST(MaskView, RejectsDocumentsThatDoNotFit) {
  expect_error(
      [] {
        view_mask(model(ModelKind::bert), {200, 100});
      },
      {"have 300 tokens together", "model.seq_length is 256"});
}

}  // namespace
}  // namespace tessera
