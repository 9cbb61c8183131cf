#include "launch/tools/attention/heat_colors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tessera {
namespace {

constexpr std::array<Color, 6> kStops = {{{0xF8, 0xFB, 0xFE},
                                          {0xD3, 0xE4, 0xF3},
                                          {0x94, 0xC1, 0xE0},
                                          {0x4A, 0x91, 0xC6},
                                          {0x1D, 0x5F, 0xA6},
                                          {0x08, 0x2F, 0x6B}}};

}  // namespace

uint8_t color_index(float weight) {
  return static_cast<uint8_t>(std::lround(255.0f * std::sqrt(std::clamp(weight, 0.0f, 1.0f))));
}

Color heat_color(uint8_t index) {
  const float place = static_cast<float>(index) / 255.0f * static_cast<float>(kStops.size() - 1);
  const size_t below = std::min(static_cast<size_t>(place), kStops.size() - 2);
  const float share = place - static_cast<float>(below);
  const auto mix = [&](uint8_t Color::*part) {
    const float low = kStops[below].*part, high = kStops[below + 1].*part;
    return static_cast<uint8_t>(std::lround(low + share * (high - low)));
  };
  return {mix(&Color::red), mix(&Color::green), mix(&Color::blue)};
}

std::string hex(Color color) {
  return fmt::format("#{:02x}{:02x}{:02x}", color.red, color.green, color.blue);
}

bool is_dark(uint8_t index) { return index > 135; }

std::string heat_stops() {
  std::string stops;
  for (const Color& stop : kStops) stops += (stops.empty() ? "" : " ") + hex(stop);
  return stops;
}

}  // namespace tessera
