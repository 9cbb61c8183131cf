#include <png.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "launch/data/images/image_decoders.h"

namespace tessera {
namespace {

using namespace std::string_view_literals;

/// libpng's reader of a file. Its errors are thrown as Error, as its manual allows.
class PngReader {
 public:
  explicit PngReader(const MappedFile& file) : file_(file), rest_(file.text()) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, [](auto...) {});
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
    if (info_ == nullptr) png_destroy_read_struct(&png_, nullptr, nullptr);
    require(info_ != nullptr, "{}: libpng cannot start", file.path());
    png_set_read_fn(png_, this, read);
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  DecodedImage decode(Decode what) {
    png_read_info(png_, info_);
    const int color = png_get_color_type(png_, info_);
    const bool wide = png_get_bit_depth(png_, info_) == 16 && color == PNG_COLOR_TYPE_GRAY;
    DecodedImage image;
    Pixels& pixels = image.pixels;
    start_image(file_, png_get_image_height(png_, info_), png_get_image_width(png_, info_),
                (color & PNG_COLOR_MASK_COLOR) == 0 ? 1 : 3, what, pixels);
    if (what == Decode::header) return image;
    png_set_palette_to_rgb(png_);
    png_set_expand_gray_1_2_4_to_8(png_);
    if (!wide) png_set_strip_16(png_);
    png_set_strip_alpha(png_);
    png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    const auto width = static_cast<size_t>(pixels.columns * pixels.channels) * (wide ? 2 : 1);
    require(png_get_rowbytes(png_, info_) == width, "{}: libpng's rows have {} bytes, not {}",
            file_.path(), png_get_rowbytes(png_, info_), width);
    std::vector<uint8_t> both(wide ? pixels.values.size() * 2 : 0);
    std::vector<png_bytep> rows;
    for (int64_t row = 0; row < pixels.rows; ++row) {
      rows.push_back((wide ? both : pixels.values).data() + static_cast<size_t>(row) * width);
    }
    png_read_image(png_, rows.data());
    for (size_t i = 0; i < both.size(); i += 2) {  // Pillow cuts 16-bit gray values off
      pixels.values[i / 2] = both[i] == 0 ? both[i + 1] : uint8_t{255};
    }
    image.orientation = orientation();
    return image;
  }

 private:
  [[noreturn]] static void on_error(png_structp png, png_const_charp message) {
    const auto& reader = *static_cast<PngReader*>(png_get_error_ptr(png));
    fail("{}: is a damaged PNG file: {}", reader.file_.path(), message);
  }

  static void read(png_structp png, png_bytep to, size_t count) {
    auto& rest = static_cast<PngReader*>(png_get_io_ptr(png))->rest_;
    if (rest.size() < count) png_error(png, "it ends too early");
    std::ranges::copy(rest.substr(0, count), to);
    rest.remove_prefix(count);
  }

  /// Also of metadata after the pixels, which may be missing.
  int64_t orientation() {
    try {
      png_read_end(png_, info_);
    } catch (const Error&) {  // all pixels are there
    }
    png_bytep exif = nullptr;
    png_uint_32 size = 0;
    std::optional<int64_t> found;
    png_textp texts = nullptr;
    const int count = png_get_text(png_, info_, &texts, nullptr);
    const auto text = [&](std::string_view key) {
      std::string_view value;
      for (int i = 0; i < count; ++i) {
        const png_text& one = texts[i];
        if (one.key != key || one.text == nullptr) continue;
        value = {one.text, std::max(one.text_length, one.itxt_length)};
      }
      return value;
    };
    if (png_get_eXIf_1(png_, info_, &size, &exif) != 0) {
      found = exif_orientation({reinterpret_cast<const char*>(exif), size});
    } else {
      found = exif_orientation(from_hex(text("Raw profile type exif")));
    }
    if (!found) found = xmp_orientation(text("XML:com.adobe.xmp"));
    return found.value_or(1);
  }

  /// ImageMagick's form of a profile: its kind, its size and its bytes in lines of hexadecimal.
  static std::string from_hex(std::string_view profile) {
    for (int line = 0; line < 3; ++line) {
      profile.remove_prefix(std::min(profile.find('\n'), profile.size() - 1) + 1);
      if (profile.empty()) return {};
    }
    std::string bytes;
    int digits = 0, value = 0;
    for (const char c : profile) {
      constexpr auto kDigits = "0123456789abcdef"sv;
      const size_t digit = kDigits.find(static_cast<char>(std::tolower(c)));
      if (digit == std::string_view::npos) continue;
      value = value << 4 | static_cast<int>(digit);
      if (++digits % 2 == 0) bytes += static_cast<char>(std::exchange(value, 0));
    }
    return bytes;
  }

  const MappedFile& file_;
  std::string_view rest_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

}  // namespace

DecodedImage decode_png(const MappedFile& file, Decode what) {
  return PngReader(file).decode(what);
}

}  // namespace tessera
