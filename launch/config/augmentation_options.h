#pragma once

#include <cstdint>

namespace tessera {

/// Random changes of training images.
struct AugmentationOptions {
  int64_t crop_padding = 0;      ///< rows and columns by which an image may be shifted
  bool horizontal_flip = false;  ///< whether half of the images are flipped from left to right

  bool operator==(const AugmentationOptions&) const = default;
};

}  // namespace tessera
