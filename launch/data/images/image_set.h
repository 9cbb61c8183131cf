#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launch/data/datasets/label_reader.h"

namespace tessera {

/// The pixels of an image: for each row and column, `channels` numbers from 0 to 255.
struct Pixels {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t channels = 0;
  std::vector<uint8_t> values;  ///< (rows, columns, channels)
};

/// The size of the images of a set. 0: each image has its own, and is resized for the model.
struct ImageFormat {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t channels = 0;
};

/// Images with a class each. Reading is thread-safe.
class ImageSet {
 public:
  virtual ~ImageSet() = default;

  /// The number of images, at least 1.
  virtual int64_t size() const = 0;
  virtual ImageFormat format() const = 0;
  /// The names of its classes, in order; empty if they are numbers.
  virtual const std::vector<std::string>& class_names() const = 0;
  /// The file of an image; empty if a file has several.
  virtual std::string file(int64_t /*i*/) const { return {}; }
  /// The class of an image, which is not negative.
  virtual int32_t label(int64_t i) const = 0;
  /// Overwrites `out`, with `channels` numbers for each pixel if each image has a format of its
  /// own. Throws, naming the file, if an image is damaged.
  virtual void read(int64_t i, int64_t channels, Pixels& out) const = 0;
  /// Throws, naming them, if images are damaged as far as the start and end of their files say.
  virtual void check() const {}
  /// Its sizes and a checksum of its content.
  virtual std::string identity() const = 0;
};

/// Opens images by the form of `path`:
///
///     a folder with a folder for each class, which contains PNG or JPEG files
///     a .bin file, or a folder of data_batch_*.bin, in CIFAR-10's binary format
///     otherwise an IDX file of images, as those of MNIST, perhaps compressed. Its labels are in a
///     file of the same name, with "labels" for "images" and "idx1" for "idx3".
///
/// Keeps IDX and CIFAR-10 images in memory. Throws, naming file, what was found and what is
/// allowed, if a file is missing or damaged, or if the numbers of images and labels differ.
std::unique_ptr<const ImageSet> open_images(const std::string& path);

/// The labels of image sets: the names of their classes, which must be the same, or numbers from 0
/// to the largest. `count` may say that there are more. Throws if there are fewer than two.
Labels find_image_labels(std::span<const std::string> paths, std::optional<int64_t> count = {});

/// An image from a PNG or JPEG file, with 1 (gray) or 3 (red, green, blue) channels, as Pillow's
/// convert("L") or convert("RGB") returns it after ImageOps.exif_transpose(): alpha, profiles and
/// gamma are ignored, and gray values of 16 bits are cut off at 255. Throws, naming the file, if it
/// is damaged, or larger than 100 million pixels.
Pixels read_image_file(const std::string& path, int64_t channels);

/// Throws, naming the file, if read_image_file() would, as far as its header and end say.
void check_image_file(const std::string& path);

}  // namespace tessera
