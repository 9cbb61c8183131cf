#include "launch/tools/attention/heat_png.h"

#include <png.h>

#include <utility>

#include "core/checked.h"
#include "core/error.h"
#include "launch/support/text/base64.h"
#include "launch/tools/attention/heat_colors.h"

namespace tessera {
namespace {

constexpr Color kHiddenColor = {0xd8, 0xd1, 0xc3};

/// A PNG file of `pixels`: (rows, columns, 3) colors or, with `colormap`, (rows, columns) indices.
std::string png_of(const std::vector<uint8_t>& pixels, int64_t rows, int64_t columns,
                   const std::vector<Color>* colormap = nullptr) {
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  image.width = narrow<png_uint_32>(columns);
  image.height = narrow<png_uint_32>(rows);
  image.format = colormap != nullptr ? PNG_FORMAT_RGB_COLORMAP : PNG_FORMAT_RGB;
  image.colormap_entries = colormap != nullptr ? narrow<png_uint_32>(std::ssize(*colormap)) : 0;
  const Color* const colors = colormap != nullptr ? colormap->data() : nullptr;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string file(size, '\0');
  const int written =
      png_image_write_to_memory(&image, file.data(), &size, 0, pixels.data(), 0, colors);
  require(written != 0, "a picture of {} × {} pixels cannot be written: {}", rows, columns,
          image.message);
  file.resize(size);
  return file;
}

std::string url_of(const std::string& png) { return "data:image/png;base64," + to_base64(png); }

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

std::string heat_image_url(const std::vector<float>& weights, int64_t rows, int64_t columns) {
  static const std::vector<Color> colors = [] {
    std::vector<Color> all;
    for (int i = 0; i < 256; ++i) all.push_back(heat_color(static_cast<uint8_t>(i)));
    return all;
  }();
  std::vector<uint8_t> indices;
  for (const float weight : weights) indices.push_back(color_index(weight));
  return url_of(png_of(indices, rows, columns, &colors));
}

std::string color_image_url(const std::vector<uint8_t>& colors, int64_t rows, int64_t columns) {
  return url_of(png_of(colors, rows, columns));
}

}  // namespace tessera
