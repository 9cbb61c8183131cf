#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/metrics/picture.h"

namespace tessera {

/// A picture of attention weights (rows, columns), a square of `cell` pixels each, in the colors of
/// heat_color(). Cells that are `hidden`, of the same shape, are gray.
Picture heat_picture(std::string tag, const std::vector<float>& weights,
                     const std::vector<uint8_t>& hidden, int64_t rows, int64_t columns,
                     int64_t cell);

/// A picture of `weights` (rows, columns), one pixel each, as a data: URL.
std::string heat_image_url(const std::vector<float>& weights, int64_t rows, int64_t columns);

/// A picture of `colors` (rows, columns, 3), red, green and blue, likewise.
std::string color_image_url(const std::vector<uint8_t>& colors, int64_t rows, int64_t columns);

}  // namespace tessera
