#include "launch/data/images/image_set.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "launch/data/images/image_files.h"

namespace tessera {

std::unique_ptr<const ImageSet> open_images(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return is_cifar_folder(path) ? open_cifar_images(path) : open_image_folder(path);
  }
  return path.ends_with(".bin") ? open_cifar_images(path) : open_idx_images(path);
}

Labels find_image_labels(std::span<const std::string> paths, std::optional<int64_t> count) {
  Labels labels;
  for (size_t i = 0; i < paths.size(); ++i) {
    const auto images = open_images(paths[i]);
    const std::vector<std::string>& names = images->class_names();
    require(i == 0 || names == labels.names,
            "{} has the classes {}, but {} has {}: images of one run need the same classes",
            paths[i], fmt::join(names, ", "), paths[0], fmt::join(labels.names, ", "));
    labels.names = names;
    labels.count = std::max(labels.count, std::ssize(names));
    for (int64_t image = 0; names.empty() && image < images->size(); ++image) {
      labels.count = std::max<int64_t>(labels.count, images->label(image) + 1);
    }
  }
  if (count && labels.names.empty()) labels.count = std::max(labels.count, *count);
  require(labels.count >= 2, "{}: all images have the same class, but classification needs two",
          fmt::join(paths, ", "));
  return labels;
}

}  // namespace tessera
