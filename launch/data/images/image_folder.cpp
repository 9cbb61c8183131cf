#include <png.h>
#include <turbojpeg.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "core/error.h"
#include "launch/config/label_names.h"
#include "launch/data/images/image_files.h"
#include "launch/support/files/mapped_file.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostPixels = 100'000'000;

/// Prepares for an image of this size, as its header says.
uint8_t* start_image(const MappedFile& file, int64_t rows, int64_t columns, int64_t channels,
                     Pixels& out) {
  constexpr int64_t kMostOfByte = 10'000;  // a black PNG with a bit for each pixel has about 8000
  require(rows >= 1 && columns >= 1 && rows <= kMostPixels / columns,
          "{}: an image of {} × {} pixels: at most {} are allowed", file.path(), rows, columns,
          kMostPixels);
  require(rows * columns / kMostOfByte <= static_cast<int64_t>(file.size()),
          "{}: its header says {} × {} pixels, but it has only {} bytes: the file is damaged",
          file.path(), rows, columns, file.size());
  out.rows = rows;
  out.columns = columns;
  out.channels = channels;
  out.values.resize(static_cast<size_t>(rows * columns * channels));
  return out.values.data();
}

void read_png(const MappedFile& file, int64_t channels, Pixels& out) {
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  const std::unique_ptr<png_image, void (*)(png_image*)> freed(&image, png_image_free);
  const auto damaged = [&] { fail("{}: is a damaged PNG file: {}", file.path(), image.message); };
  if (png_image_begin_read_from_memory(&image, file.bytes().data(), file.size()) == 0) damaged();
  uint8_t* const pixels = start_image(file, image.height, image.width, channels, out);
  image.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  const png_color black = {};
  if (png_image_finish_read(&image, &black, pixels, 0, nullptr) == 0) damaged();
}

void read_jpeg(const MappedFile& file, int64_t channels, Pixels& out) {
  const std::unique_ptr<void, int (*)(tjhandle)> decoder(tjInitDecompress(), tjDestroy);
  require(decoder != nullptr, "{}: the JPEG decoder cannot start", file.path());
  const auto check = [&](int result) {
    require(result == 0, "{}: is a damaged JPEG file: {}", file.path(),
            tjGetErrorStr2(decoder.get()));
  };
  const auto* bytes = reinterpret_cast<const unsigned char*>(file.bytes().data());
  int columns = 0, rows = 0, subsampling = 0, colors = 0;
  check(tjDecompressHeader3(decoder.get(), bytes, file.size(), &columns, &rows, &subsampling,
                            &colors));
  uint8_t* const pixels = start_image(file, rows, columns, channels, out);
  check(tjDecompress2(decoder.get(), bytes, file.size(), pixels, columns, 0, rows,
                      channels == 1 ? TJPF_GRAY : TJPF_RGB, 0));
}

bool is_image_file(const fs::path& path) {
  std::string extension = path.extension().string();
  std::ranges::transform(extension, extension.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension == ".png" || extension == ".jpg" || extension == ".jpeg";
}

/// What is in a folder, sorted, without hidden files.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.path().filename().string().starts_with('.')) paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  return paths;
}

/// A folder for each class, named after it.
class ImageFolder final : public ImageSet {
 public:
  explicit ImageFolder(const std::string& path) : path_(path) {
    for (const fs::path& folder : entries_of(path)) {
      require(fs::is_directory(folder),
              "{}: is not a folder: a folder of images has a folder for each class, which contains "
              "PNG or JPEG files",
              folder.string());
      add_class(folder);
    }
    require(!files_.empty(), "{}: has no images: it needs a folder for each class", path);
    if (const auto problem = label_problem(class_names_)) fail("{}: {}", path, *problem);
  }

  int64_t size() const override { return std::ssize(files_); }
  ImageFormat format() const override { return {}; }
  const std::vector<std::string>& class_names() const override { return class_names_; }
  std::string file(int64_t i) const override { return files_.at(static_cast<size_t>(i)); }
  int32_t label(int64_t i) const override { return labels_.at(static_cast<size_t>(i)); }

  void read(int64_t i, int64_t channels, Pixels& out) const override {
    out = read_image_file(files_.at(static_cast<size_t>(i)), channels);
  }

  /// Does not read the files.
  std::string identity() const override {
    uint64_t bytes = 0;
    for (const std::string& file : files_) bytes += fs::file_size(file);
    return fmt::format("{} images of {} classes, {} bytes", files_.size(), class_names_.size(),
                       bytes);
  }

 private:
  void add_class(const fs::path& folder) {
    const size_t before = files_.size();
    for (const fs::path& file : entries_of(folder)) {
      require(is_image_file(file), "{}: is neither a .png nor a .jpg or .jpeg file", file.string());
      files_.push_back(file.string());
      labels_.push_back(static_cast<int32_t>(class_names_.size()));
    }
    require(files_.size() > before, "{}: has no images, but is the folder of a class",
            folder.string());
    class_names_.push_back(folder.filename().string());
  }

  std::string path_;
  std::vector<std::string> files_, class_names_;
  std::vector<int32_t> labels_;
};

}  // namespace

std::unique_ptr<const ImageSet> open_image_folder(const std::string& path) {
  return std::make_unique<const ImageFolder>(path);
}

Pixels read_image_file(const std::string& path, int64_t channels) {
  require(channels == 1 || channels == 3,
          "{}: model.num_channels is {}, but image files are read with 1 channel (gray) or 3 "
          "(color)",
          path, channels);
  const MappedFile file(path);
  const std::string_view text = file.text();
  Pixels pixels;
  if (text.starts_with("\x89PNG")) {
    read_png(file, channels, pixels);
  } else if (text.starts_with("\xff\xd8")) {
    read_jpeg(file, channels, pixels);
  } else {
    fail("{}: is neither a PNG nor a JPEG file", path);
  }
  return pixels;
}

}  // namespace tessera
