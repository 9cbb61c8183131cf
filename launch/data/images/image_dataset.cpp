#include "launch/data/images/image_dataset.h"

#include <algorithm>
#include <utility>

#include "core/checked.h"
#include "core/error.h"
#include "core/ops/cross_entropy.h"
#include "core/random.h"
#include "launch/data/sampling/sample_order.h"
#include "launch/support/text/print.h"

namespace tessera {
namespace {

/// One for each channel.
std::vector<double> of_channels(const std::vector<double>& values, int64_t channels) {
  if (std::ssize(values) == channels) return values;
  return std::vector<double>(static_cast<size_t>(channels), values.at(0));
}

}  // namespace

ImageEncoder::ImageEncoder(const ModelConfig& config) : config_(config) {
  const std::vector<double> mean = of_channels(config.image_mean, config.num_channels);
  const std::vector<double> std = of_channels(config.image_std, config.num_channels);
  constexpr double kWhite = 255.0;
  for (size_t channel = 0; channel < mean.size(); ++channel) {
    mean_.push_back(static_cast<float>(kWhite * mean[channel]));
    scale_.push_back(static_cast<float>(1.0 / (kWhite * std[channel])));
  }
}

void ImageEncoder::encode_blank(Sample& out) const {
  const auto tokens = static_cast<size_t>(config_.image_tokens());
  const size_t first = config_.has_class_token() ? 1 : 0;
  out.clear();
  out.tokens.assign(tokens, 0);
  out.token_types.assign(tokens, static_cast<int32_t>(first));
  if (first == 1) out.token_types[0] = 0;
  out.targets.assign(tokens, kIgnoreTarget);
  out.document_lengths = {static_cast<int32_t>(tokens)};
  out.patches.assign(tokens * static_cast<size_t>(config_.patch_width()), 0.0f);
}

void ImageEncoder::encode(const Pixels& image, Sample& out) const {
  const int64_t size = config_.image_size, patch = config_.patch_size;
  const auto channels = static_cast<size_t>(config_.num_channels);
  require(image.rows == size && image.columns == size && image.channels == config_.num_channels,
          "an image has {} × {} pixels of {} channels, but the model's have {} × {} of {}",
          image.rows, image.columns, image.channels, size, size, channels);
  encode_blank(out);
  const auto width = static_cast<size_t>(config_.patch_width());
  const size_t first = config_.has_class_token() ? 1 : 0;
  float* number = out.patches.data() + first * width;
  for (int64_t top = 0; top < size; top += patch) {
    for (int64_t left = 0; left < size; left += patch) {
      for (size_t channel = 0; channel < channels; ++channel) {
        for (int64_t row = top; row < top + patch; ++row) {
          const uint8_t* value =
              image.values.data() + channel + static_cast<size_t>(row * size + left) * channels;
          for (int64_t column = 0; column < patch; ++column, value += channels) {
            *number++ = (static_cast<float>(*value) - mean_[channel]) * scale_[channel];
          }
        }
      }
    }
  }
}

void ImageEncoder::read(const ImageSet& images, int64_t i, Pixels& out) const {
  images.read(i, config_.num_channels, out);
  if (images.format().rows == 0) resize(out);
}

void ImageEncoder::encode(const ImageSet& images, int64_t i, Sample& out) const {
  Pixels pixels;
  read(images, i, pixels);
  encode(pixels, out);
}

void check_image_format(const ModelConfig& config, const ImageSet& images,
                        const std::string& path) {
  const ImageFormat format = images.format();
  if (format.rows == 0) {
    require(config.num_channels == 1 || config.num_channels == 3,
            "{}: model.num_channels is {}, but image files are read with 1 channel (gray) or 3 "
            "(color)",
            path, config.num_channels);
    return;
  }
  require(format.rows == config.image_size && format.columns == config.image_size,
          "{}: its images have {} × {} pixels, but model.image_size is {}: only images of a folder "
          "are resized, so choose the size of the images",
          path, format.rows, format.columns, config.image_size);
  require(format.channels == config.num_channels,
          "{}: its images have {} channels, but model.num_channels is {}", path, format.channels,
          config.num_channels);
}

ImageDataset::ImageDataset(std::shared_ptr<const ImageSet> images, std::string path,
                           ImageEncoder encoder, Range places,
                           const AugmentationOptions& augmentation, uint64_t seed)
    : images_(std::move(images)),
      path_(std::move(path)),
      encoder_(std::move(encoder)),
      places_(places),
      augmentation_(augmentation),
      seed_(seed) {
  require(0 <= places.begin && places.begin < places.end && places.end <= images_->size(),
          "{}: the range of images [{}, {}) is empty or not within the {}", path_, places.begin,
          places.end, images_->size());
}

int64_t ImageDataset::image_of(int64_t sample) const {
  require(0 <= sample && sample < num_samples(), "{}: there is no sample {}: there are {}", path_,
          sample, num_samples());
  return shuffled_place(images_->size(), places_.begin + sample);
}

std::vector<TextOrigin> ImageDataset::origins(int64_t sample, int64_t /*epoch*/) const {
  const int64_t image = image_of(sample);
  return {{0, path_, "image", {image, image + 1}}};
}

void ImageDataset::fill(int64_t sample, int64_t epoch, Sample& out) const {
  const int64_t image = image_of(sample);
  Pixels pixels;
  if (!read(image, pixels)) {
    encoder_.encode_blank(out);
    out.labels = {kIgnoreTarget};
    return;
  }
  augment(augmentation_, seed_, epoch, image, pixels);
  encoder_.encode(pixels, out);
  out.labels = {images_->label(image)};
}

bool ImageDataset::read(int64_t image, Pixels& pixels) const {
  const int64_t tried = ++num_read_;
  try {
    encoder_.read(*images_, image, pixels);
    return true;
  } catch (const Error& error) {
    constexpr int64_t kAlwaysTolerated = 10, kOneIn = 100;
    const int64_t bad = ++num_unreadable_;
    require(bad <= std::max(kAlwaysTolerated, tried / kOneIn),
            "{}; {} of the {} images read so far cannot be read", error.what(), bad, tried);
    print_error("warning: {}; its sample has no label ({} of {} so far)\n", error.what(), bad,
                tried);
    return false;
  }
}

void augment(const AugmentationOptions& options, uint64_t seed, int64_t epoch, int64_t image,
             Pixels& pixels) {
  const auto margin = static_cast<uint32_t>(options.crop_padding);
  if (margin == 0 && !options.horizontal_flip) return;
  const RandomKey key{seed, RandomPurpose::augmentation, 0, static_cast<uint32_t>(epoch)};
  const std::array<uint32_t, 4> bits = philox(key, static_cast<uint64_t>(image));
  const auto shift = [&](uint32_t word) {  // from -margin to margin
    return static_cast<int64_t>((uint64_t{word} * (2 * margin + 1)) >> 32) - margin;
  };
  const int64_t down = shift(bits[0]), right = shift(bits[1]);
  const bool flip = options.horizontal_flip && bits[2] >> 31 == 1;
  const std::vector<uint8_t> before =
      std::exchange(pixels.values, std::vector<uint8_t>(pixels.values.size(), uint8_t{0}));
  for (int64_t row = 0; row < pixels.rows; ++row) {
    const int64_t from_row = row + down;
    if (from_row < 0 || from_row >= pixels.rows) continue;
    for (int64_t column = 0; column < pixels.columns; ++column) {
      const int64_t from = (flip ? pixels.columns - 1 - column : column) + right;
      if (from < 0 || from >= pixels.columns) continue;
      std::copy_n(before.begin() + (from_row * pixels.columns + from) * pixels.channels,
                  pixels.channels,
                  pixels.values.begin() + (row * pixels.columns + column) * pixels.channels);
    }
  }
}

}  // namespace tessera
