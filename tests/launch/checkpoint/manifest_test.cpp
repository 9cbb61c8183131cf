#include "launch/checkpoint/format/manifest.h"

#include "launch/support/files/checksum.h"
#include "tests/launch/checkpoint/fixture.h"

namespace tessera {
namespace {

using namespace testing_checkpoint;
using ::testing::HasSubstr;

Manifest small_manifest() {
  Manifest manifest;
  manifest.tessera_version = "0.1.0";
  manifest.step = 100;
  manifest.samples = 6400;
  manifest.model = {{"kind", "gpt"}, {"norm_eps", 1e-5}};
  manifest.extra = {{"seed", 7}};
  manifest.files["model_00000.safetensors"] = {120, "xxh3-64:00000000000000aa"};
  manifest.attachments["tokenizer.json"] = {17, "xxh3-64:00000000000000bb"};
  StoredTensor tensor{kModelKind, DType::f32, {4, 2}, {}};
  tensor.slices.push_back({"model_00000.safetensors", "w", {{0, 0}, {3, 2}}, "xxh3-64:01"});
  tensor.slices.push_back({"model_00000.safetensors", "w2", {{3, 0}, {1, 2}}, "xxh3-64:02"});
  manifest.tensors["w"] = tensor;
  return manifest;
}

// The small manifest's text with one part replaced and a valid checksum.
std::string changed(const std::string& part, const std::string& replacement) {
  std::string text = manifest_text(small_manifest());
  const size_t at = text.find(part);
  require(at != std::string::npos, "the manifest has no {}", part);
  text.replace(at, part.size(), replacement);
  text.resize(text.rfind("  \"checksum\""));
  const std::string checksum = checksum_of(std::as_bytes(std::span(text.data(), text.size())));
  return text + "  \"checksum\": \"" + checksum + "\"\n}\n";
}

std::string error_of_change(const std::string& part, const std::string& replacement) {
  const std::string text = changed(part, replacement);
  return error_of([&] { parse_manifest(text, "m.json"); });
}

TEST(Manifest, RoundTrips) {
  const Manifest manifest = parse_manifest(manifest_text(small_manifest()), "m.json");
  EXPECT_EQ(manifest_text(manifest), manifest_text(small_manifest()));
  EXPECT_EQ(manifest.step, 100);
  EXPECT_EQ(manifest.samples, 6400);
  EXPECT_EQ(manifest.model, small_manifest().model);
  EXPECT_EQ(manifest.attachments.at("tokenizer.json").size, 17);
  EXPECT_EQ(manifest.tensors.at("w").slices[1].box, (Box{{3, 0}, {1, 2}}));
}

TEST(Manifest, RejectsHostileAttachments) {
  for (const char* name : {"../tokenizer.json", "manifest.json", ".json", "tokenizer.txt", ""}) {
    EXPECT_THAT(
        error_of_change("\"name\": \"tokenizer.json\"", "\"name\": \"" + std::string(name) + "\""),
        ::testing::StartsWith("m.json: "));
  }
  EXPECT_THAT(error_of_change("\"size\": 17", "\"size\": 268435457"),
              HasSubstr("tokenizer.json is listed with 268435457 bytes"));
  EXPECT_THAT(error_of_change("\"attachments\": [", "\"attachments\": {}, \"other\": ["),
              HasSubstr("\"attachments\" must be a list"));
}

TEST(Manifest, RejectsEveryChangedByteAndTruncation) {
  const std::string good = manifest_text(small_manifest());
  for (size_t i = 0; i < good.size(); ++i) {
    for (const int flip : {0x01, 0x20, 0x80}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ flip);
      EXPECT_THROW(parse_manifest(bad, "m.json"), Error) << i << " ^ " << flip;
    }
    EXPECT_THROW(parse_manifest(good.substr(0, i), "m.json"), Error) << i;
  }
}

TEST(Manifest, RejectsLaterFormat) {
  const std::string error = error_of_change("\"format_version\": 1", "\"format_version\": 2");
  EXPECT_THAT(error, HasSubstr("m.json: \"format_version\" is 2"));
  EXPECT_THAT(error, HasSubstr("reads up to 1"));
  EXPECT_THAT(error, HasSubstr("later version"));
}

TEST(Manifest, RejectsHostileManifests) {
  for (const char* name : {"../model_00000.safetensors", "/etc/x.safetensors", ".safetensors",
                           "a/b.safetensors", "passwd", "a\\u0000.safetensors", ""}) {
    EXPECT_THAT(error_of_change("\"name\": \"model_00000.safetensors\"",
                                "\"name\": \"" + std::string(name) + "\""),
                HasSubstr("a file's name must end in .safetensors"));
  }
  EXPECT_THAT(
      error_of_change("\"file\":\"model_00000", "\"file\":\"model_00001"),
      HasSubstr("tensor \"w\": a slice is in \"model_00001.safetensors\", which is not in"));
  EXPECT_THAT(error_of_change("\"size\": 120", "\"size\": -1"), HasSubstr("\"size\" must be an"));
  EXPECT_THAT(error_of_change("\"step\": 100", "\"step\": 1e2"), HasSubstr("\"step\" must be an"));
  EXPECT_THAT(error_of_change("\"step\": 100,", ""), HasSubstr("has no \"step\""));
  EXPECT_THAT(error_of_change("\"step\": 100", "\"step\": 9223372036854775807"),
              HasSubstr("step 9223372036854775807 and 6400 samples: at most 2^62 are possible"));
  EXPECT_THAT(error_of_change("\"kind\": \"model\"", "\"kind\": \"data\""),
              HasSubstr("must be \"model\" or \"optimizer\", but is \"data\""));
  EXPECT_THAT(error_of_change("\"F32\"", "\"Q4\""), HasSubstr("the dtype \"Q4\" is not known"));
  EXPECT_THAT(error_of_change("\"shape\": [4,2]", "\"shape\": [4611686018427387904,4]"),
              HasSubstr("more bytes than fit into 63 bits"));
  EXPECT_THAT(error_of_change("\"model\": {", "\"model\": [], \"other\": {"),
              HasSubstr("\"model\" must be an object"));
}

TEST(Manifest, RejectsSlicesThatDoNotTileTensor) {
  const auto error = [](const std::string& offset, const std::string& shape) {
    return error_of_change("\"offset\":[3,0],\"shape\":[1,2]",
                           "\"offset\":" + offset + ",\"shape\":" + shape);
  };
  EXPECT_THAT(error("[3,0]", "[1,1]"), HasSubstr("hold 7 of the 8 elements"));
  EXPECT_THAT(error("[2,0]", "[1,2]"), HasSubstr("the slices [0:3, 0:2] and [2:3, 0:2] overlap"));
  EXPECT_THAT(error("[2,0]", "[2,2]"), HasSubstr("more than the 8 elements"));
  EXPECT_THAT(error("[3,0]", "[2,1]"), HasSubstr("not a piece of the shape (4, 2)"));
  EXPECT_THAT(error("[9223372036854775807,0]", "[1,2]"), HasSubstr("not a piece"));
  EXPECT_THAT(error("[3,0]", "[0,2]"), HasSubstr("not a piece"));
  EXPECT_THAT(error("[3]", "[1]"), HasSubstr("not a piece"));
}

TEST(Box, AcceptsAnyTilingAndRejectsVariations) {
  // A pinwheel, which no straight cut divides.
  const std::vector<Box> pinwheel = {
      {{0, 0}, {1, 2}}, {{0, 2}, {2, 1}}, {{2, 1}, {1, 2}}, {{1, 0}, {2, 1}}, {{1, 1}, {1, 1}}};
  EXPECT_NO_THROW(require_tiling(pinwheel, {3, 3}, "w"));
  for (size_t i = 0; i < pinwheel.size(); ++i) {
    auto missing = pinwheel;
    missing.erase(missing.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_THROW(require_tiling(missing, {3, 3}, "w"), Error);
    auto moved = pinwheel;
    for (int dim = 0; dim < 2; ++dim) {
      moved[i].offset.set(dim, (moved[i].offset[dim] + 1) % 3);
      EXPECT_THROW(require_tiling(moved, {3, 3}, "w"), Error);
    }
  }
  EXPECT_NO_THROW(require_tiling({Box{}}, {}, "scalar"));
  EXPECT_THROW(require_tiling({Box{}, Box{}}, {}, "scalar"), Error);
  EXPECT_NO_THROW(require_tiling({}, {0, 3}, "empty"));
}

// Both arrays hold global indices, so every copied element shows where it came from.
// 24,000 slices: ZeRO-1 on 8,000 data ranks.
TEST(Box, AcceptsManySlicesButNoSquareOfThem) {
  std::vector<Box> runs, corners;
  for (int64_t i = 0; i < 8000; ++i) {
    const std::vector<Box> run = boxes_of_run({{0, 0}, {12000, 10}}, {i * 15, (i + 1) * 15});
    runs.insert(runs.end(), run.begin(), run.end());
  }
  EXPECT_NO_THROW(require_tiling(runs, {12000, 10}, "w"));
  constexpr int64_t kSize = 6000;
  for (int64_t i = 0; i < kSize; ++i) corners.push_back({{i, i}, {kSize - i, 1}});
  EXPECT_THAT(error_of([&] {
                require_tiling(corners, {kSize, kSize}, "w");
              }),
              HasSubstr("w: its 6000 slices lie too irregularly to be checked"));
}

TEST(Box, RunsCopyExactlyTheOverlap) {
  const Shape global = {4, 3, 5};
  const std::vector<Box> boxes = {{{0, 0, 0}, {4, 3, 5}}, {{1, 0, 0}, {2, 3, 5}},
                                  {{0, 1, 0}, {4, 2, 5}}, {{0, 0, 2}, {4, 3, 2}},
                                  {{1, 1, 1}, {3, 1, 4}}, {{2, 0, 3}, {1, 3, 2}}};
  for (const Box& from : boxes) {
    for (const Box& to : boxes) {
      std::vector<int64_t> source(static_cast<size_t>(from.shape.numel()));
      std::vector<int64_t> target(static_cast<size_t>(to.shape.numel()), -1);
      for_each_element(from, global, [&](int64_t local, int64_t index) {
        source[static_cast<size_t>(local)] = index;
      });
      const auto overlap = intersect(from, to);
      ASSERT_TRUE(overlap.has_value());
      for_each_run(from, to, *overlap, [&](int64_t a, int64_t b, int64_t count) {
        for (int64_t i = 0; i < count; ++i) {
          target[static_cast<size_t>(b + i)] = source[static_cast<size_t>(a + i)];
        }
      });
      for_each_element(to, global, [&](int64_t local, int64_t index) {
        const bool copied = std::find(source.begin(), source.end(), index) != source.end();
        EXPECT_EQ(target[static_cast<size_t>(local)], copied ? index : -1)
            << to_string(from) << " to " << to_string(to);
      });
    }
  }
}

}  // namespace
}  // namespace tessera
