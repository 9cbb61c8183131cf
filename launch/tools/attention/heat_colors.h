#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

struct Color {
  uint8_t red, green, blue;
};

/// Maps a weight from 0 to 1 to a color index from 0 to 255 by its square root, so that the small
/// weights of long sequences can be told apart.
uint8_t color_index(float weight);

/// From nearly white to dark blue.
Color heat_color(uint8_t index);

/// "#rrggbb".
std::string hex(Color color);

/// Whether text on this color has to be light.
bool is_dark(uint8_t index);

/// A picture of `weights` (rows, columns), one pixel each, as a data: URL of a bitmap.
std::string heat_image_url(const std::vector<float>& weights, int64_t rows, int64_t columns);

/// A picture of `colors` (rows, columns, 3), red, green and blue, likewise.
std::string color_image_url(const std::vector<uint8_t>& colors, int64_t rows, int64_t columns);

}  // namespace tessera
