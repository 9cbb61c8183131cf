#include "launch/tools/attention/heat_colors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

namespace tessera {
namespace {

constexpr std::array<Color, 6> kStops = {{{0xF8, 0xFB, 0xFE},
                                          {0xD3, 0xE4, 0xF3},
                                          {0x94, 0xC1, 0xE0},
                                          {0x4A, 0x91, 0xC6},
                                          {0x1D, 0x5F, 0xA6},
                                          {0x08, 0x2F, 0x6B}}};

std::string base64(std::span<const uint8_t> bytes) {
  constexpr const char* kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min(bytes.size() - i, size_t{3});
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) group = group << 8 | (j < count ? bytes[i + j] : 0u);
    for (size_t j = 0; j < 4; ++j) {
      text += j <= count ? kDigits[group >> (18 - 6 * j) & 63u] : '=';
    }
  }
  return text;
}

/// Little-endian numbers, one after the other.
struct Bytes {
  std::vector<uint8_t> values;

  void add(int64_t value, int size) {
    for (int i = 0; i < size; ++i) values.push_back(static_cast<uint8_t>(value >> (8 * i)));
  }
};

struct BitmapSize {
  int64_t rows, columns;
};

/// BITMAPFILEHEADER and BITMAPINFOHEADER; the palette and the rows, from the top, follow.
void add_headers(Bytes& bitmap, BitmapSize size, int bits_per_pixel, int64_t palette_bytes,
                 int64_t row_bytes) {
  constexpr int64_t kHeaderBytes = 54;
  bitmap.add('B' | 'M' << 8, 2);
  bitmap.add(kHeaderBytes + palette_bytes + row_bytes * size.rows, 4);
  bitmap.add(0, 4);
  bitmap.add(kHeaderBytes + palette_bytes, 4);
  bitmap.add(40, 4);
  bitmap.add(size.columns, 4);
  bitmap.add(-size.rows, 4);
  bitmap.add(1, 2);
  bitmap.add(bits_per_pixel, 2);
  for (int i = 0; i < 6; ++i) bitmap.add(0, 4);
}

std::string url_of(const Bytes& bitmap) { return "data:image/bmp;base64," + base64(bitmap.values); }

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

std::string heat_image_url(const std::vector<float>& weights, int64_t rows, int64_t columns) {
  constexpr int64_t kPaletteBytes = 256 * 4;
  const int64_t row_bytes = (columns + 3) / 4 * 4;
  Bytes bitmap;
  add_headers(bitmap, {rows, columns}, 8, kPaletteBytes, row_bytes);
  for (int i = 0; i < 256; ++i) {
    const Color color = heat_color(static_cast<uint8_t>(i));
    bitmap.add(color.blue | color.green << 8 | color.red << 16, 4);
  }
  for (int64_t t = 0; t < rows; ++t) {
    for (int64_t s = 0; s < row_bytes; ++s) {
      bitmap.add(s < columns ? color_index(weights[static_cast<size_t>(t * columns + s)]) : 0, 1);
    }
  }
  return url_of(bitmap);
}

std::string color_image_url(const std::vector<uint8_t>& colors, int64_t rows, int64_t columns) {
  const int64_t row_bytes = (3 * columns + 3) / 4 * 4;
  Bytes bitmap;
  add_headers(bitmap, {rows, columns}, 24, 0, row_bytes);
  for (int64_t row = 0; row < rows; ++row) {
    const uint8_t* color = colors.data() + 3 * row * columns;
    for (int64_t column = 0; column < columns; ++column, color += 3) {
      bitmap.add(color[2] | color[1] << 8 | color[0] << 16, 3);
    }
    bitmap.add(0, static_cast<int>(row_bytes - 3 * columns));
  }
  return url_of(bitmap);
}

}  // namespace tessera
