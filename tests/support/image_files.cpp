#include "tests/support/image_files.h"

#include <png.h>

#include "core/error.h"

namespace tessera::test {

std::string idx(const std::vector<uint32_t>& dimensions, const std::string& elements) {
  std::string bytes = {0, 0, 8, static_cast<char>(dimensions.size())};
  for (const uint32_t size : dimensions) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(size >> shift);
  }
  return bytes + elements;
}

void write_png(const std::filesystem::path& path, const Pixels& image) {
  std::filesystem::create_directories(path.parent_path());
  png_image png = {};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(image.columns);
  png.height = static_cast<png_uint_32>(image.rows);
  png.format = image.channels == 1   ? PNG_FORMAT_GRAY
               : image.channels == 3 ? PNG_FORMAT_RGB
                                     : PNG_FORMAT_RGBA;
  require(png_image_write_to_file(&png, path.c_str(), 0, image.values.data(), 0, nullptr) != 0,
          "{} cannot be written: {}", path.string(), png.message);
}

}  // namespace tessera::test
