#pragma once

#include <array>
#include <cstdint>
#include <string>

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

/// The colors between which heat_color() interpolates, as hex() writes them, with spaces.
std::string heat_stops();

}  // namespace tessera
