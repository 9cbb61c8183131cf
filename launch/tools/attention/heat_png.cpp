#include "launch/tools/attention/heat_png.h"

#include <png.h>

#include <utility>

#include "core/checked.h"
#include "core/error.h"
#include "launch/tools/attention/heat_colors.h"

namespace tessera {
namespace {

constexpr Color kHiddenColor = {0xd8, 0xd1, 0xc3};

/// A PNG file of `colors` (rows, columns, 3).
std::string png_of(const std::vector<uint8_t>& colors, int64_t rows, int64_t columns) {
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  image.width = narrow<png_uint_32>(columns);
  image.height = narrow<png_uint_32>(rows);
  image.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string file(size, '\0');
  const int written =
      png_image_write_to_memory(&image, file.data(), &size, 0, colors.data(), 0, nullptr);
  require(written != 0, "a picture of {} × {} pixels cannot be written: {}", rows, columns,
          image.message);
  file.resize(size);
  return file;
}

}  // namespace

Picture heat_picture(std::string tag, const std::vector<float>& weights,
                     const std::vector<uint8_t>& hidden, int64_t rows, int64_t columns,
                     int64_t cell) {
  Picture picture{std::move(tag), columns * cell, rows * cell, {}};
  std::vector<uint8_t> colors;
  for (int64_t y = 0; y < picture.height; ++y) {
    for (int64_t x = 0; x < picture.width; ++x) {
      const auto i = static_cast<size_t>(y / cell * columns + x / cell);
      const Color color = hidden[i] != 0 ? kHiddenColor : heat_color(color_index(weights[i]));
      colors.insert(colors.end(), {color.red, color.green, color.blue});
    }
  }
  picture.png = png_of(colors, picture.height, picture.width);
  return picture;
}

}  // namespace tessera
