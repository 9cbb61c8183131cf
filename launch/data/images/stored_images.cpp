#include <xxhash.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "core/error.h"
#include "launch/data/images/image_files.h"
#include "launch/support/files/path_error.h"
#include "launch/support/files/piece_reader.h"

namespace tessera {

StoredImages::StoredImages(std::string path, ImageFormat format, std::vector<uint8_t> pixels,
                           std::vector<uint8_t> labels, std::vector<std::string> class_names)
    : path_(std::move(path)),
      format_(format),
      pixels_(std::move(pixels)),
      labels_(std::move(labels)),
      class_names_(std::move(class_names)) {}

void StoredImages::read(int64_t i, int64_t channels, Pixels& out) const {
  require(0 <= i && i < size(), "{}: there is no image {}: there are {}", path_, i, size());
  require(channels == format_.channels, "{}: its images have {} channels, but the model has {}",
          path_, format_.channels, channels);
  out.rows = format_.rows;
  out.columns = format_.columns;
  out.channels = channels;
  const auto bytes = format_.rows * format_.columns * channels;
  const auto first = pixels_.begin() + i * bytes;
  out.values.assign(first, first + bytes);
}

std::string StoredImages::identity() const {
  const auto hash = [](const std::vector<uint8_t>& bytes) {
    return XXH3_64bits(bytes.data(), bytes.size());
  };
  return fmt::format("{} images of {} x {} x {}, {:016x}{:016x}", size(), format_.rows,
                     format_.columns, format_.channels, hash(pixels_), hash(labels_));
}

std::vector<uint8_t> read_whole(const std::string& path, size_t most) {
  std::vector<uint8_t> bytes;
  PieceReader reader(path);
  for (std::string_view piece = reader.next(); !piece.empty(); piece = reader.next()) {
    require(bytes.size() + piece.size() <= most, "{} has more than the {} bytes that are allowed",
            path, most);
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  }
  return bytes;
}

// --- IDX ----------------------------------------------------------------------------------------
namespace {

constexpr size_t kMostBytes = size_t{64} << 30;

struct IdxFile {
  std::vector<int64_t> dimensions;
  std::vector<uint8_t> bytes;  ///< without the header
};

/// Reads the format of MNIST: two zero bytes, the type (8: bytes), the number of dimensions, each
/// dimension as a big-endian 32-bit integer, and the elements.
IdxFile read_idx(const std::string& path, size_t rank, std::string_view what) {
  IdxFile file;
  file.bytes = read_whole(path, kMostBytes);
  const std::vector<uint8_t>& bytes = file.bytes;
  const size_t header = 4 + 4 * rank;
  require(bytes.size() >= 4 && bytes[0] == 0 && bytes[1] == 0 && bytes[2] == 8 && bytes[3] == rank,
          "{}: is not an IDX file of {}, which begins with the bytes 0 0 8 {}: images are an IDX "
          "file (MNIST's format), a .bin file or a folder",
          path, what, rank);
  require(bytes.size() >= header, "{}: ends within its header of {} bytes", path, header);
  size_t expected = 1;
  for (size_t i = 4; i < header; i += 4) {
    const uint32_t size = static_cast<uint32_t>(bytes[i]) << 24 | bytes[i + 1] << 16 |
                          bytes[i + 2] << 8 | bytes[i + 3];
    require(size > 0, "{}: dimension {} is 0", path, i / 4 - 1);
    require(expected <= kMostBytes / size, "{}: its header says that it has more than {} bytes",
            path, kMostBytes);
    expected *= size;
    file.dimensions.push_back(size);
  }
  require(bytes.size() - header == expected,
          "{}: its header says {} bytes of {}, but {} follow: the file is damaged", path, expected,
          what, bytes.size() - header);
  file.bytes.erase(file.bytes.begin(), file.bytes.begin() + static_cast<std::ptrdiff_t>(header));
  return file;
}

/// "t10k-labels-idx1-ubyte" for "t10k-images-idx3-ubyte".
std::string labels_path(const std::string& images) {
  const std::filesystem::path path(images);
  std::string name = path.filename().string();
  const auto replace = [&](std::string_view from, std::string_view to) {
    const size_t at = name.find(from);
    if (at == std::string::npos) return false;
    name.replace(at, from.size(), to);
    return true;
  };
  require(replace("images", "labels"),
          "{}: its labels are in a file with \"labels\" instead of \"images\" in its name, but "
          "this name has no \"images\": rename it, as in train-images-idx3-ubyte",
          images);
  replace("idx3", "idx1");
  return (path.parent_path() / name).string();
}

}  // namespace

std::unique_ptr<const ImageSet> open_idx_images(const std::string& path) {
  IdxFile images = read_idx(path, 3, "images");
  const std::string beside = labels_path(path);
  IdxFile labels = read_idx(beside, 1, "labels");
  require(images.dimensions[0] == labels.dimensions[0],
          "{} has {} images, but {} has {} labels: they do not belong together", path,
          images.dimensions[0], beside, labels.dimensions[0]);
  const ImageFormat format{images.dimensions[1], images.dimensions[2], 1};
  return std::make_unique<const StoredImages>(path, format, std::move(images.bytes),
                                              std::move(labels.bytes), std::vector<std::string>{});
}

// --- CIFAR-10 -----------------------------------------------------------------------------------
namespace {

constexpr int64_t kCifarSize = 32, kCifarChannels = 3, kCifarClasses = 10;
constexpr size_t kCifarPlane = kCifarSize * kCifarSize;
constexpr size_t kCifarRecord = 1 + kCifarPlane * kCifarChannels;

std::vector<std::string> cifar_batches(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("data_batch_") && name.ends_with(".bin")) paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  return paths;
}

/// The names in batches.meta.txt beside the images, if it exists.
std::vector<std::string> cifar_names(const std::filesystem::path& folder) {
  const std::string path = folder / "batches.meta.txt";
  std::ifstream file(path);
  std::vector<std::string> names;
  for (std::string line; std::getline(file, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) names.push_back(line);
    require(names.size() <= kCifarClasses, "{}: has more than {} names of classes", path,
            kCifarClasses);
  }
  require(names.empty() || names.size() == kCifarClasses,
          "{}: has {} names of classes, but CIFAR-10 has {}", path, names.size(), kCifarClasses);
  return names;
}

}  // namespace

bool is_cifar_folder(const std::string& path) { return !cifar_batches(path).empty(); }

// A record is the label, and a plane for each of the colors.
std::unique_ptr<const ImageSet> open_cifar_images(const std::string& path) {
  const bool is_folder = std::filesystem::is_directory(path);
  const std::vector<std::string> files =
      is_folder ? cifar_batches(path) : std::vector<std::string>{path};
  std::vector<uint8_t> pixels, labels;
  for (const std::string& file : files) {
    const std::vector<uint8_t> bytes = read_whole(file, kMostBytes);
    require(!bytes.empty() && bytes.size() % kCifarRecord == 0,
            "{}: has {} bytes, but a file in CIFAR-10's binary format is a multiple of {} long",
            file, bytes.size(), kCifarRecord);
    for (size_t record = 0; record < bytes.size(); record += kCifarRecord) {
      require(bytes[record] < kCifarClasses, "{}: the label of image {} is {}, but must be 0 to {}",
              file, record / kCifarRecord, bytes[record], kCifarClasses - 1);
      labels.push_back(bytes[record]);
      for (size_t pixel = 0; pixel < kCifarPlane; ++pixel) {
        for (size_t color = 0; color < kCifarChannels; ++color) {
          pixels.push_back(bytes[record + 1 + color * kCifarPlane + pixel]);
        }
      }
    }
  }
  const std::filesystem::path folder =
      is_folder ? std::filesystem::path(path) : std::filesystem::path(path).parent_path();
  return std::make_unique<const StoredImages>(
      path, ImageFormat{kCifarSize, kCifarSize, kCifarChannels}, std::move(pixels),
      std::move(labels), cifar_names(folder));
}

}  // namespace tessera
