#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/range.h"
#include "launch/config/augmentation_options.h"
#include "launch/data/images/image_set.h"
#include "launch/data/sample.h"
#include "models/model_config.h"

namespace tessera {

/// Makes samples of images: an image is one document, whose tokens are its patches from left to
/// right and from top to bottom, after the class token if the model has one.
class ImageEncoder {
 public:
  explicit ImageEncoder(const ModelConfig& config);

  /// Resizes an image to the model's size, bilinearly.
  void resize(Pixels& image) const;

  /// Overwrites `out` with an image of the mean color, without a label.
  void encode_blank(Sample& out) const;

  /// Overwrites `out` without setting a label. `image` has the model's size.
  void encode(const Pixels& image, Sample& out) const;

  /// Overwrites `out` with an image of a set, resized if each has a size of its own.
  void encode(const ImageSet& images, int64_t i, Sample& out) const;

  /// Reads an image of a set, resized if each has a size of its own.
  void read(const ImageSet& images, int64_t i, Pixels& out) const;

  int64_t tokens() const { return config_.image_tokens(); }

 private:
  ModelConfig config_;
  std::vector<float> mean_, scale_;  // of each channel, of numbers from 0 to 255
};

/// A subset of a set's images. `places` are of a fixed random order, as in ClassificationDataset.
/// An image that cannot be read costs one sample: a gray one without a label, with a warning.
/// Throws if more than one in a hundred, and more than ten, cannot be read.
class ImageDataset final : public Dataset {
 public:
  /// Augments images differently in each epoch, as a function of (seed, epoch, image). Throws if
  /// `places` is empty or not within the images.
  ImageDataset(std::shared_ptr<const ImageSet> images, std::string path, ImageEncoder encoder,
               Range places, const AugmentationOptions& augmentation, uint64_t seed);

  int64_t num_samples() const override { return places_.size(); }
  int64_t seq_length() const override { return encoder_.tokens(); }
  void fill(int64_t sample, int64_t epoch, Sample& out) const override;
  std::vector<TextOrigin> origins(int64_t sample, int64_t epoch) const override;

 private:
  int64_t image_of(int64_t sample) const;
  bool read(int64_t image, Pixels& pixels) const;

  std::shared_ptr<const ImageSet> images_;
  std::string path_;
  ImageEncoder encoder_;
  Range places_;
  AugmentationOptions augmentation_;
  uint64_t seed_;
  mutable std::atomic<int64_t> num_read_ = 0, num_unreadable_ = 0;
};

/// Throws unless images of `path` fit a model, which cannot resize images in memory.
void check_image_format(const ModelConfig& config, const ImageSet& images, const std::string& path);

/// Shifts an image randomly by up to options.crop_padding rows and columns, which leaves black
/// margins, and flips it from left to right with a probability of 1/2, if the options say so. The
/// random numbers are those of `image` in `epoch`.
void augment(const AugmentationOptions& options, uint64_t seed, int64_t epoch, int64_t image,
             Pixels& pixels);

}  // namespace tessera
