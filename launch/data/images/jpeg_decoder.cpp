// clang-format off
#include <cstdio>  // jpeglib.h needs it
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <string_view>
#include <vector>

#include "core/error.h"
#include "launch/data/images/image_decoders.h"

namespace tessera {
namespace {

using namespace std::string_view_literals;

/// libjpeg's reader of a file. Its errors are thrown as Error. Its warnings, such as one of bytes
/// before a marker, are ignored, except that the file ends too early.
class JpegReader {
 public:
  explicit JpegReader(const MappedFile& file) : file_(file) {
    jpeg_.err = jpeg_std_error(&errors_);
    jpeg_.client_data = this;
    errors_.error_exit = on_error;
    errors_.emit_message = [](j_common_ptr jpeg, int level) {
      if (level < 0 && jpeg->err->msg_code == JWRN_JPEG_EOF) {
        static_cast<JpegReader*>(jpeg->client_data)->cut_ = true;
      }
    };
    jpeg_create_decompress(&jpeg_);
    progress_.progress_monitor = limit_scans;
    jpeg_.progress = &progress_;
  }
  ~JpegReader() { jpeg_destroy_decompress(&jpeg_); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  DecodedImage decode(Decode what) {
    jpeg_mem_src(&jpeg_, reinterpret_cast<const unsigned char*>(file_.bytes().data()),
                 file_.size());
    jpeg_save_markers(&jpeg_, kApp1, 0xffff);
    jpeg_read_header(&jpeg_, TRUE);
    const int colors = jpeg_.num_components;
    require(colors == 1 || colors == 3 || colors == 4,
            "{}: is a JPEG file of {} components, but only gray, RGB and CMYK are read",
            file_.path(), colors);
    DecodedImage image;
    Pixels& pixels = image.pixels;
    start_image(file_, jpeg_.image_height, jpeg_.image_width, colors == 1 ? 1 : 3, what, pixels);
    image.orientation = orientation();
    if (what == Decode::header) return image;
    jpeg_.out_color_space = colors == 1 ? JCS_GRAYSCALE : colors == 3 ? JCS_RGB : JCS_CMYK;
    jpeg_start_decompress(&jpeg_);
    std::vector<uint8_t> inks(colors == 4 ? static_cast<size_t>(4 * pixels.columns) : 0);
    uint8_t* to = pixels.values.data();
    for (int64_t row = 0; row < pixels.rows && !cut_; ++row) {
      JSAMPROW line = colors == 4 ? inks.data() : to;
      jpeg_read_scanlines(&jpeg_, &line, 1);
      if (colors == 4) {
        add_row(inks, to);
      } else {
        to += pixels.columns * pixels.channels;
      }
    }
    require(!cut_, "{}: is a damaged JPEG file: it ends too early", file_.path());
    return image;
  }

 private:
  static constexpr int kApp1 = JPEG_APP0 + 1;

  [[noreturn]] static void on_error(j_common_ptr jpeg) {
    char message[JMSG_LENGTH_MAX];
    jpeg->err->format_message(jpeg, message);
    fail("{}: is a damaged JPEG file: {}",
         static_cast<JpegReader*>(jpeg->client_data)->file_.path(), message);
  }

  /// Each scan goes over all pixels, and a small file may have very many scans.
  static void limit_scans(j_common_ptr jpeg) {
    constexpr int kMostScans = 500;
    const auto& reader = *static_cast<JpegReader*>(jpeg->client_data);
    require(reader.jpeg_.input_scan_number <= kMostScans,
            "{}: is a damaged JPEG file: it has more than {} scans", reader.file_.path(),
            kMostScans);
  }

  /// Appends a row of CMYK as RGB. The inks are inverted, as Adobe's programs write them and Pillow
  /// assumes.
  static void add_row(const std::vector<uint8_t>& inks, uint8_t*& to) {
    for (size_t i = 0; i < inks.size(); i += 4) {
      for (size_t color = 0; color < 3; ++color) {
        const int product = (255 - inks[i + color]) * inks[i + 3] + 128;
        *to++ = static_cast<uint8_t>(inks[i + 3] - (((product >> 8) + product) >> 8));
      }
    }
  }

  int64_t orientation() const {
    std::optional<int64_t> exif, xmp;
    bool has_exif = false;
    for (const jpeg_marker_struct* marker = jpeg_.marker_list; marker; marker = marker->next) {
      const std::string_view data(reinterpret_cast<const char*>(marker->data), marker->data_length);
      constexpr auto kXmp = "http://ns.adobe.com/xap/1.0/\0"sv;
      if (!has_exif && data.starts_with("Exif\0\0"sv)) {
        exif = exif_orientation(data);
        has_exif = true;
      } else if (data.starts_with(kXmp)) {
        xmp = xmp_orientation(data.substr(kXmp.size()));
      }
    }
    return exif.value_or(xmp.value_or(1));
  }

  const MappedFile& file_;
  jpeg_error_mgr errors_ = {};
  jpeg_progress_mgr progress_ = {};
  jpeg_decompress_struct jpeg_ = {};
  bool cut_ = false;
};

}  // namespace

DecodedImage decode_jpeg(const MappedFile& file, Decode what) {
  return JpegReader(file).decode(what);
}

}  // namespace tessera
