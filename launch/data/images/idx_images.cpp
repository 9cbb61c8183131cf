#include <filesystem>
#include <utility>

#include "core/error.h"
#include "launch/data/images/image_files.h"
#include "launch/support/files/piece_reader.h"
#include "parallel/host/host_memory.h"

namespace tessera {
namespace {

constexpr size_t kMostIdxBytes = size_t{64} << 30;

struct IdxFile {
  std::vector<int64_t> dimensions;
  std::vector<uint8_t> elements;
};

/// Reads the header of MNIST's format: two zero bytes, the type (8: bytes), the number of
/// dimensions, and each dimension as a big-endian 32-bit integer. Returns the number of elements.
size_t read_header(const std::string& path, const std::vector<uint8_t>& bytes, size_t rank,
                   std::string_view what, std::vector<int64_t>& dimensions) {
  require(bytes.size() >= 4 && bytes[0] == 0 && bytes[1] == 0 && bytes[2] == 8 && bytes[3] == rank,
          "{}: is not an IDX file of {}, which begins with the bytes 0 0 8 {}: images are an IDX "
          "file (MNIST's format), a .bin file or a folder",
          path, what, rank);
  require(bytes.size() >= 4 + 4 * rank, "{}: ends within its header of {} bytes", path,
          4 + 4 * rank);
  size_t elements = 1;
  for (size_t i = 4; i < 4 + 4 * rank; i += 4) {
    const uint32_t size = static_cast<uint32_t>(bytes[i]) << 24 | bytes[i + 1] << 16 |
                          bytes[i + 2] << 8 | bytes[i + 3];
    require(size > 0, "{}: dimension {} is 0", path, i / 4 - 1);
    require(elements <= kMostIdxBytes / size, "{}: its header says that it has more than {} bytes",
            path, kMostIdxBytes);
    elements *= size;
    dimensions.push_back(size);
  }
  return elements;
}

/// A few bytes of compressed zeros may claim to be any number of images.
void require_memory(const std::string& path, size_t bytes) {
  const std::optional<size_t> available = find_available_memory();
  require(!available || bytes < *available / 2,
          "{}: its header says {} bytes, more than half of the {} that this host has left", path,
          bytes, available.value_or(0));
}

/// Stops as soon as a file is longer than its header says, which a compressed one may be by far.
IdxFile read_idx(const std::string& path, size_t rank, std::string_view what) {
  IdxFile file;
  std::vector<uint8_t>& bytes = file.elements;
  const size_t header = 4 + 4 * rank;
  size_t elements = 0;
  PieceReader reader(path);
  for (std::string_view piece = reader.next(); !piece.empty(); piece = reader.next()) {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
    if (bytes.size() < header) continue;
    if (file.dimensions.empty()) {
      elements = read_header(path, bytes, rank, what, file.dimensions);
      require_memory(path, elements);
    }
    if (bytes.size() > header + elements) break;
  }
  if (file.dimensions.empty()) read_header(path, bytes, rank, what, file.dimensions);
  require(bytes.size() == header + elements,
          "{}: its header says {} bytes of {}, but {} follow: the file is damaged", path, elements,
          what, bytes.size() < header + elements ? std::to_string(bytes.size() - header) : "more");
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(header));
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
  return std::make_unique<const StoredImages>(path, format, std::move(images.elements),
                                              std::move(labels.elements),
                                              std::vector<std::string>{});
}

}  // namespace tessera
