#include <algorithm>
#include <utility>

#include "core/error.h"
#include "launch/data/images/image_decoders.h"

namespace tessera {
namespace {

using namespace std::string_view_literals;

DecodedImage decode(const MappedFile& file, Decode what) {
  if (file.text().starts_with("\x89PNG")) return decode_png(file, what);
  if (file.text().starts_with("\xff\xd8")) return decode_jpeg(file, what);
  fail("{}: is neither a PNG nor a JPEG file", file.path());
}

/// Repeats gray, or weights colors as Pillow does for its mode "L".
void convert(Pixels& image, int64_t channels) {
  if (image.channels == channels) return;
  std::vector<uint8_t> values(static_cast<size_t>(image.rows * image.columns * channels));
  for (size_t i = 0, from = 0; i < values.size();) {
    const auto next = [&] { return int{image.values[from++]}; };
    if (channels == 3) {
      const auto gray = static_cast<uint8_t>(next());
      for (int color = 0; color < 3; ++color) values[i++] = gray;
    } else {
      const int red = 19595 * next(), green = 38470 * next(), blue = 7471 * next();
      values[i++] = static_cast<uint8_t>((red + green + blue + 0x8000) >> 16);
    }
  }
  image.values = std::move(values);
  image.channels = channels;
}

void turn_upright(Pixels& image, int64_t orientation) {
  if (orientation < 2 || orientation > 8) return;
  const Pixels before = std::move(image);
  const bool transposed = orientation >= 5;
  const bool flips_rows =
      orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const bool flips_columns =
      orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  image = {transposed ? before.columns : before.rows,
           transposed ? before.rows : before.columns,
           before.channels,
           {}};
  image.values.reserve(before.values.size());
  for (int64_t y = 0; y < image.rows; ++y) {
    for (int64_t x = 0; x < image.columns; ++x) {
      int64_t row = transposed ? x : y, column = transposed ? y : x;
      if (flips_rows) row = before.rows - 1 - row;
      if (flips_columns) column = before.columns - 1 - column;
      const auto pixel = before.values.begin() + (row * before.columns + column) * before.channels;
      image.values.insert(image.values.end(), pixel, pixel + before.channels);
    }
  }
}

}  // namespace

void start_image(const MappedFile& file, int64_t rows, int64_t columns, int64_t channels,
                 Decode what, Pixels& out) {
  constexpr int64_t kMostPixels = 100'000'000;
  constexpr int64_t kMostOfByte = 10'000;  // a black PNG with a bit for each pixel has about 8000
  require(rows >= 1 && columns >= 1 && rows <= kMostPixels / columns,
          "{}: an image of {} × {} pixels: at most {} are allowed", file.path(), rows, columns,
          kMostPixels);
  require(rows * columns / kMostOfByte <= static_cast<int64_t>(file.size()),
          "{}: its header says {} × {} pixels, but it has only {} bytes: the file is damaged",
          file.path(), rows, columns, file.size());
  out = {rows, columns, channels, {}};
  if (what == Decode::all) out.values.resize(static_cast<size_t>(rows * columns * channels));
}

// Entries of 12 bytes after their number: tag, type, count, value.
std::optional<int64_t> exif_orientation(std::string_view exif) {
  while (exif.starts_with("Exif\0\0"sv)) exif.remove_prefix(6);
  const bool little = exif.starts_with("II");
  if (!little && !exif.starts_with("MM")) return std::nullopt;
  const auto number = [&](uint64_t at, uint64_t bytes) {  // 0 beyond the end
    uint64_t value = 0;
    if (at > exif.size() || exif.size() - at < bytes) return value;
    for (uint64_t i = 0; i < bytes; ++i) {
      value = value << 8 | static_cast<uint8_t>(exif[at + (little ? bytes - 1 - i : i)]);
    }
    return value;
  };
  const uint64_t first = number(4, 4);
  const uint64_t entries = number(first, 2);
  for (uint64_t i = 0; i < entries; ++i) {
    const uint64_t entry = first + 2 + 12 * i;
    constexpr uint64_t kOrientation = 0x0112, kShort = 3, kLong = 4;
    if (number(entry, 2) != kOrientation) continue;
    const uint64_t type = number(entry + 2, 2);
    return static_cast<int64_t>(number(entry + 8, type == kLong ? 4 : type == kShort ? 2 : 1));
  }
  return std::nullopt;
}

std::optional<int64_t> xmp_orientation(std::string_view xmp) {
  constexpr auto kKey = "tiff:Orientation"sv;
  for (size_t at = xmp.find(kKey); at != std::string_view::npos; at = xmp.find(kKey, at + 1)) {
    std::string_view value = xmp.substr(at + kKey.size());
    if (!value.starts_with('>') && !value.starts_with("=\"")) continue;
    value.remove_prefix(value.starts_with('=') ? 1 : 0);
    if (value.size() > 1 && value[1] >= '0' && value[1] <= '9') return value[1] - '0';
  }
  return std::nullopt;
}

void check_image_file(const std::string& path) {
  const MappedFile file(path);
  decode(file, Decode::header);
  const bool ends_well =
      file.text().ends_with("\xff\xd9") || file.text().ends_with("IEND\xae\x42\x60\x82");
  if (!ends_well) decode(file, Decode::all);  // bytes after the end do not matter
}

Pixels read_image_file(const std::string& path, int64_t channels) {
  require(channels == 1 || channels == 3,
          "{}: model.num_channels is {}, but image files are read with 1 channel (gray) or 3 "
          "(color)",
          path, channels);
  DecodedImage image = decode(MappedFile(path), Decode::all);
  convert(image.pixels, channels);
  turn_upright(image.pixels, image.orientation);
  return std::move(image.pixels);
}

}  // namespace tessera
