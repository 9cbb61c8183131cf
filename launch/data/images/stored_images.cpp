#include <xxhash.h>

#include <utility>

#include "core/error.h"
#include "launch/data/images/image_files.h"

namespace tessera {

StoredImages::StoredImages(std::string path, ImageFormat format, std::vector<uint8_t> pixels,
                           std::vector<uint8_t> labels, std::vector<std::string> class_names)
    : path_(std::move(path)),
      format_(format),
      pixels_(std::move(pixels)),
      labels_(std::move(labels)),
      class_names_(std::move(class_names)) {}

void StoredImages::read(int64_t i, int64_t channels, Pixels& out) const {
  require(0 <= i && i < size(), "{}: there is no image {}: there are {}", path_, i, size());
  require(channels == format_.channels, "{}: its images have {} channels, but the model has {}",
          path_, format_.channels, channels);
  out.rows = format_.rows;
  out.columns = format_.columns;
  out.channels = channels;
  const auto bytes = format_.rows * format_.columns * channels;
  const auto first = pixels_.begin() + i * bytes;
  out.values.assign(first, first + bytes);
}

std::string StoredImages::identity() const {
  const auto hash = [](const std::vector<uint8_t>& bytes) {
    return XXH3_64bits(bytes.data(), bytes.size());
  };
  return fmt::format("{} images of {} x {} x {}, {:016x}{:016x}", size(), format_.rows,
                     format_.columns, format_.channels, hash(pixels_), hash(labels_));
}

}  // namespace tessera
