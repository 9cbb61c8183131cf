#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/ops/cross_entropy.h"
#include "launch/data/images/image_dataset.h"
#include "launch/support/text/base64.h"
#include "models/architecture.h"
#include "tests/launch/tokenizers/golden_texts.h"
#include "tests/support/compressed.h"
#include "tests/support/expect_error.h"
#include "tests/support/image_files.h"
#include "tests/support/test_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

using test::idx;

/// Bytes that depend on their place.
std::string pixels(size_t count) {
  std::string bytes;
  for (size_t i = 0; i < count; ++i) bytes += static_cast<char>(i * 37 % 251);
  return bytes;
}

Pixels gradient(int64_t rows, int64_t columns, int64_t channels) {
  Pixels image{rows, columns, channels, {}};
  for (int64_t i = 0; i < rows * columns * channels; ++i) {
    image.values.push_back(static_cast<uint8_t>(i * 37 % 251));
  }
  return image;
}

class Images : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& bytes) {
    const fs::path path = folder_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
    return path.string();
  }

  std::string write_png(const std::string& name, const Pixels& image) {
    test::write_png(folder_ / name, image);
    return folder_ / name;
  }

  test::TestFolder folder_;
};

const Json& goldens() {
  static const Json json = read_golden("image_golden.json");
  return json;
}

std::string golden_file(const std::string& name) {
  const auto found =
      std::ranges::find_if(goldens(), [&](const Json& image) { return image.at("name") == name; });
  return from_base64(found->at("file").get<std::string>(), name);
}

ModelConfig vit(int64_t size, int64_t patch, int64_t channels) {
  ModelConfig model = preset(ModelKind::vit);
  model.head = Head::classification;
  model.num_labels = 3;
  model.image_size = size;
  model.patch_size = patch;
  model.num_channels = channels;
  model.seq_length = model.image_tokens();
  return model;
}

TEST_F(Images, ReadsIdxCompressedOrNot) {
  const std::string images = idx({2, 3, 4}, pixels(24)), labels = idx({2}, {1, 2});
  const std::string plain = write("train-images-idx3-ubyte", images);
  write("train-labels-idx1-ubyte", labels);
  const std::string packed = write("train-images-idx3-ubyte.gz", test::gzipped(images));
  write("train-labels-idx1-ubyte.gz", test::gzipped(labels));
  for (const std::string& path : {plain, packed}) {
    const auto set = open_images(path);
    ASSERT_EQ(set->size(), 2);
    EXPECT_EQ(set->label(1), 2);
    EXPECT_TRUE(set->class_names().empty());
    Pixels image;
    set->read(1, 1, image);
    EXPECT_EQ(image.rows, 3);
    EXPECT_EQ(image.columns, 4);
    const std::string expected = pixels(24).substr(12);
    EXPECT_EQ(std::string(image.values.begin(), image.values.end()), expected);
  }
  EXPECT_EQ(open_images(plain)->identity(), open_images(packed)->identity());
  const std::vector<std::string> paths = {plain};
  EXPECT_EQ(find_image_labels(paths).count, 3);
  EXPECT_EQ(find_image_labels(paths, 10).count, 10);
}

TEST_F(Images, ReadsCifarPlanes) {
  std::string record(1, '\7');
  const std::string planes = pixels(3072);
  record += planes;
  write("cifar/data_batch_2.bin", record);
  write("cifar/data_batch_1.bin", std::string(1, '\1') + planes + record);
  write("cifar/batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n");
  const auto set = open_images(folder_ / "cifar");
  ASSERT_EQ(set->size(), 3);
  EXPECT_EQ(set->label(0), 1);
  EXPECT_EQ(set->label(2), 7);
  EXPECT_EQ(set->class_names().at(9), "j");
  Pixels image;
  set->read(2, 3, image);
  for (size_t pixel = 0; pixel < 1024; ++pixel) {
    for (size_t color = 0; color < 3; ++color) {
      ASSERT_EQ(image.values[3 * pixel + color],
                static_cast<uint8_t>(planes[1024 * color + pixel]));
    }
  }
}

TEST_F(Images, ReadsFoldersOfClasses) {
  const Pixels color = gradient(5, 7, 3), gray = gradient(6, 4, 1);
  write_png("set/cat/a.png", color);
  write_png("set/cat/b.PNG", gray);
  write("set/dog/c.jpeg", golden_file("444.jpg"));
  write("set/.hidden", "");
  const auto set = open_images(folder_ / "set");
  ASSERT_EQ(set->size(), 3);
  EXPECT_EQ(set->class_names(), (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(set->label(2), 1);
  Pixels image;
  set->read(0, 3, image);
  EXPECT_EQ(image.values, color.values);
  set->read(1, 1, image);
  EXPECT_EQ(image.values, gray.values);
  set->read(1, 3, image);
  EXPECT_EQ(image.values[0], image.values[2]);
  set->read(2, 3, image);
  EXPECT_EQ(image.columns, 13);
}

// tests/parity/make_image_goldens.py: PNG of all depths and kinds, metadata, JPEG of all kinds.
TEST_F(Images, ReadsFilesAsPillowDoes) {
  int refused = 0;
  for (const Json& image : goldens()) {
    const auto name = image.at("name").get<std::string>();
    const std::string path = write(name, golden_file(name));
    if (!image.contains("rgb")) {
      ++refused;
      EXPECT_THROW(read_image_file(path, 3), Error) << name;
      EXPECT_THROW(check_image_file(path), Error) << name;
      continue;
    }
    EXPECT_NO_THROW(check_image_file(path)) << name;
    for (const auto& [mode, channels] : {std::pair("rgb", 3), std::pair("gray", 1)}) {
      const Pixels found = read_image_file(path, channels);
      EXPECT_EQ(found.rows, image.at("rows").get<int64_t>()) << name;
      EXPECT_EQ(found.columns, image.at("columns").get<int64_t>()) << name;
      const std::string expected = from_base64(image.at(mode).get<std::string>(), name);
      EXPECT_EQ(std::string(found.values.begin(), found.values.end()), expected)
          << name << ' ' << mode;
    }
  }
  EXPECT_EQ(refused, 3);
}

TEST_F(Images, FindsDamagedFilesOfAFolder) {
  const std::string png = golden_file("rgb_8.png");
  for (int i = 0; i < 300; ++i) write(fmt::format("set/a/{}.png", i), png);
  open_images(folder_ / "set")->check();
  write("set/a/17.png", png.substr(0, png.size() - 40));
  write("set/a/208.png", "");
  write("set/a/99.png", "text");
  test::expect_error([&] { open_images(folder_ / "set")->check(); },
                     {"3 of 300 images", "a/17.png", "a/208.png", "a/99.png"});
}

// Damage between a file's start and end shows only when it is decoded.
TEST_F(Images, AnUnreadableImageCostsOneSample) {
  std::string png = golden_file("rgb_8.png");
  const auto open = [&](int bad) {
    for (int i = 0; i < 40; ++i) {
      std::string bytes = png;
      if (i < bad) std::fill_n(bytes.begin() + 45, 20, '\xee');
      write(fmt::format("set/{}/{:02}.png", i % 2, i), bytes);
    }
    return ImageDataset(open_images(folder_ / "set"), "set", ImageEncoder(vit(8, 4, 3)), {0, 40},
                        {}, 1);
  };
  const ImageDataset few = open(3);
  int64_t labeled = 0;
  for (int64_t i = 0; i < 40; ++i) {
    Sample sample;
    few.fill(i, 0, sample);
    ASSERT_EQ(sample.labels.size(), 1);
    EXPECT_EQ(sample.tokens.size(), sample.targets.size());
    if (sample.labels[0] != kIgnoreTarget) {
      ++labeled;
      continue;
    }
    EXPECT_EQ(sample.patches, std::vector<float>(sample.patches.size(), 0.0f));
  }
  EXPECT_EQ(labeled, 37);
  const ImageDataset many = open(12);
  EXPECT_THROW(
      {
        Sample sample;
        for (int64_t i = 0; i < 40; ++i) many.fill(i, 0, sample);
      },
      Error);
}

// A textbook loop over tokens, channels, rows and columns.
TEST_F(Images, EncodesNormalizedPatches) {
  for (const Pooling pooling : {Pooling::cls, Pooling::mean}) {
    ModelConfig model = vit(12, 4, 2);
    model.image_mean = {0.25, 0.5};
    model.image_std = {0.5};
    model.classifier_pooling = pooling;
    const Pixels image = gradient(12, 12, 2);
    Sample sample;
    ImageEncoder(model).encode(image, sample);
    const int64_t first = pooling == Pooling::cls ? 1 : 0, tokens = 9 + first;
    ASSERT_EQ(std::ssize(sample.tokens), tokens);
    EXPECT_THAT(sample.document_lengths, testing::ElementsAre(tokens));
    for (int64_t token = 0; token < tokens; ++token) {
      const bool is_class = token < first;
      EXPECT_EQ(sample.token_types[static_cast<size_t>(token)], is_class ? 0 : first);
      EXPECT_EQ(sample.targets[static_cast<size_t>(token)], kIgnoreTarget);
      const int64_t patch = token - first;
      for (int64_t i = 0; i < 32; ++i) {
        const float found = sample.patches[static_cast<size_t>(token * 32 + i)];
        if (is_class) {
          ASSERT_EQ(found, 0.0f);
          continue;
        }
        const int64_t channel = i / 16, row = patch / 3 * 4 + i % 16 / 4,
                      column = patch % 3 * 4 + i % 4;
        const double value = image.values[static_cast<size_t>((row * 12 + column) * 2 + channel)];
        const double mean = channel == 0 ? 0.25 : 0.5;
        ASSERT_NEAR(found, (value / 255.0 - mean) / 0.5, 1e-6);
      }
    }
  }
}

TEST_F(Images, ResizesBilinearly) {
  const ImageEncoder encoder(vit(2, 1, 1));
  Pixels image{4, 4, 1, {10, 10, 90, 90, 10, 10, 90, 90, 50, 50, 0, 0, 50, 50, 0, 0}};
  encoder.resize(image);
  EXPECT_EQ(image.rows, 2);
  // What Pillow's Image.resize((2, 2), Image.BILINEAR) returns.
  const std::vector<uint8_t> expected = {24, 69, 40, 17};
  // Pillow rounds after each direction, and leaves out what is beyond a margin, where stb repeats
  // the last pixel.
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(image.values[i], expected[i], 3) << i;
  Pixels flat{3, 9, 1, std::vector<uint8_t>(27, 77)};
  encoder.resize(flat);
  EXPECT_EQ(flat.values, std::vector<uint8_t>(4, 77));
}

TEST_F(Images, AugmentsAsAFunctionOfSeedEpochAndImage) {
  const AugmentationOptions options{.crop_padding = 2, .horizontal_flip = true};
  const Pixels image = gradient(6, 6, 3);
  const auto augmented = [&](uint64_t seed, int64_t epoch, int64_t i) {
    Pixels changed = image;
    augment(options, seed, epoch, i, changed);
    return changed.values;
  };
  // All shifts and both directions, and nothing else.
  std::set<std::vector<uint8_t>> possible, found;
  for (int64_t down = -2; down <= 2; ++down) {
    for (int64_t right = -2; right <= 2; ++right) {
      for (const bool flip : {false, true}) {
        std::vector<uint8_t> values(image.values.size(), 0);
        for (int64_t row = 0; row < 6; ++row) {
          for (int64_t column = 0; column < 6; ++column) {
            const int64_t from_row = row + down, from = (flip ? 5 - column : column) + right;
            if (from_row < 0 || from_row > 5 || from < 0 || from > 5) continue;
            for (int64_t c = 0; c < 3; ++c) {
              values[static_cast<size_t>((row * 6 + column) * 3 + c)] =
                  image.values[static_cast<size_t>((from_row * 6 + from) * 3 + c)];
            }
          }
        }
        possible.insert(values);
      }
    }
  }
  ASSERT_EQ(possible.size(), 50);
  for (int64_t i = 0; i < 1000; ++i) found.insert(augmented(1, 0, i));
  EXPECT_EQ(found, possible);
  EXPECT_EQ(augmented(1, 2, 3), augmented(1, 2, 3));
  int differing = 0;
  for (int64_t i = 0; i < 100; ++i) {
    differing += augmented(1, 0, i) != augmented(1, 1, i) ? 1 : 0;
    differing += augmented(1, 0, i) != augmented(2, 0, i) ? 1 : 0;
  }
  EXPECT_GT(differing, 180);  // of 200, in which one of 50 is equal by chance
}

TEST_F(Images, RefusesDamagedFiles) {
  const auto refused = [&](const std::string& path, std::initializer_list<const char*> parts) {
    test::expect_error([&] { open_images(path); }, parts);
  };
  write("a-labels-idx1-ubyte", idx({1}, {1}));
  refused(write("a-images-idx3-ubyte", "text"), {"a-images-idx3-ubyte", "begins with the bytes"});
  refused(write("a-images-idx3-ubyte", idx({1, 2, 2}, pixels(3))), {"says 4 bytes", "3 follow"});
  refused(write("a-images-idx3-ubyte", idx({1, 2, 2}, pixels(5))), {"says 4 bytes", "more follow"});
  refused(write("a-images-idx3-ubyte", idx({1, 0, 2}, "")), {"dimension 1 is 0"});
  refused(write("a-images-idx3-ubyte", idx({4'000'000'000, 4'000'000'000, 9}, "")),
          {"more than", "bytes"});
  refused(write("a-images-idx3-ubyte", idx({2, 2, 2}, pixels(8))), {"2 images", "1 labels"});
  refused(write("b-images-idx3-ubyte", idx({2, 2, 2}, pixels(8))), {"b-labels-idx1-ubyte"});
  refused(write("unnamed", idx({2, 2, 2}, pixels(8))), {"has no \"images\"", "rename"});
  refused(write("short.bin", pixels(3072)), {"3072 bytes", "multiple of 3073"});
  refused(write("label.bin", std::string(1, '\x0a') + pixels(3072)), {"label of image 0 is 10"});
  refused(folder_ / "none", {"none"});
  write("loose/file.png", "");
  refused(folder_ / "loose", {"loose/file.png", "is not a folder"});
  fs::create_directories(folder_ / "empty/class");
  refused(folder_ / "empty", {"empty/class", "has no images"});
  fs::create_directories(folder_ / "nothing");
  refused(folder_ / "nothing", {"nothing", "has no images"});
  write("other/class/readme.txt", "");
  refused(folder_ / "other", {"readme.txt", "neither a .png nor"});

  const auto damaged = [&](const std::string& path, std::initializer_list<const char*> parts) {
    test::expect_error([&] { read_image_file(path, 3); }, parts);
  };
  const std::string png = write_png("good.png", gradient(9, 9, 3));
  std::string bytes(static_cast<size_t>(fs::file_size(png)), '\0');
  std::ifstream(png, std::ios::binary).read(bytes.data(), std::ssize(bytes));
  damaged(write("cut.png", bytes.substr(0, bytes.size() / 2)), {"cut.png", "damaged PNG"});
  damaged(write("cut.jpg", golden_file("cut.jpg")), {"cut.jpg", "damaged JPEG"});
  damaged(write("text.png", "text"), {"text.png", "neither a PNG nor a JPEG"});
}

TEST_F(Images, RefusesOtherSizes) {
  write("labels-idx1-ubyte", idx({1}, {1}));
  const auto set = open_images(write("images-idx3-ubyte", idx({1, 3, 4}, pixels(12))));
  test::expect_error([&] { check_image_format(vit(4, 2, 1), *set, "images"); },
                     {"images", "3 × 4 pixels", "model.image_size is 4"});
}

}  // namespace
}  // namespace tessera
