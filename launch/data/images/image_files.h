#pragma once

#include <memory>
#include <string>

#include "launch/data/images/image_set.h"

namespace tessera {

// The formats of open_images().
std::unique_ptr<const ImageSet> open_idx_images(const std::string& path);
std::unique_ptr<const ImageSet> open_cifar_images(const std::string& path);
std::unique_ptr<const ImageSet> open_image_folder(const std::string& path);

/// Whether a folder has CIFAR-10's files.
bool is_cifar_folder(const std::string& path);

/// Images of one size in memory.
class StoredImages final : public ImageSet {
 public:
  /// `pixels` are (images, rows, columns, channels).
  StoredImages(std::string path, ImageFormat format, std::vector<uint8_t> pixels,
               std::vector<uint8_t> labels, std::vector<std::string> class_names);

  int64_t size() const override { return std::ssize(labels_); }
  ImageFormat format() const override { return format_; }
  const std::vector<std::string>& class_names() const override { return class_names_; }
  int32_t label(int64_t i) const override { return labels_.at(static_cast<size_t>(i)); }
  void read(int64_t i, int64_t channels, Pixels& out) const override;
  std::string identity() const override;

 private:
  std::string path_;
  ImageFormat format_;
  std::vector<uint8_t> pixels_, labels_;
  std::vector<std::string> class_names_;
};

}  // namespace tessera
