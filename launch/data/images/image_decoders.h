#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "launch/data/images/image_set.h"
#include "launch/support/files/mapped_file.h"

namespace tessera {

enum class Decode : uint8_t { header, all };

/// An image as its file stores it.
struct DecodedImage {
  Pixels pixels;  ///< 1 (gray) or 3 channels; without values if only the header was read
  /// EXIF's orientation. 1: upright; 2 to 8: flipped or rotated; others have no meaning.
  int64_t orientation = 1;
};

// They throw, naming the file, if it is damaged or larger than 100 million pixels.
DecodedImage decode_png(const MappedFile& file, Decode what);
DecodedImage decode_jpeg(const MappedFile& file, Decode what);

/// Prepares for an image whose header says this size.
void start_image(const MappedFile& file, int64_t rows, int64_t columns, int64_t channels,
                 Decode what, Pixels& out);

// The orientation that metadata names, if it does.
std::optional<int64_t> exif_orientation(std::string_view exif);
std::optional<int64_t> xmp_orientation(std::string_view xmp);

}  // namespace tessera
