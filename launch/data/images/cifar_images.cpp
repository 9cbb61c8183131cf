#include <algorithm>
#include <filesystem>
#include <sstream>
#include <utility>

#include "core/error.h"
#include "launch/data/images/image_files.h"
#include "launch/support/files/mapped_file.h"
#include "launch/support/files/small_file.h"

namespace tessera {
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
  constexpr size_t kMostBytes = 10000;
  std::vector<std::string> names;
  if (!std::filesystem::exists(path)) return names;
  std::istringstream file(read_small_file(path, kMostBytes));
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
    const MappedFile mapped(file);
    const std::span<const std::byte> bytes = mapped.bytes();
    require(!bytes.empty() && bytes.size() % kCifarRecord == 0,
            "{}: has {} bytes, but a file in CIFAR-10's binary format is a multiple of {} long",
            file, bytes.size(), kCifarRecord);
    const auto byte = [&](size_t i) { return std::to_integer<uint8_t>(bytes[i]); };
    for (size_t record = 0; record < bytes.size(); record += kCifarRecord) {
      require(byte(record) < kCifarClasses, "{}: the label of image {} is {}, but must be 0 to {}",
              file, record / kCifarRecord, byte(record), kCifarClasses - 1);
      labels.push_back(byte(record));
      for (size_t pixel = 0; pixel < kCifarPlane; ++pixel) {
        for (size_t color = 0; color < kCifarChannels; ++color) {
          pixels.push_back(byte(record + 1 + color * kCifarPlane + pixel));
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
