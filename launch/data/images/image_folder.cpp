#include <algorithm>
#include <atomic>
#include <cctype>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <thread>

#include "core/exit_code.h"
#include "launch/config/label_names.h"
#include "launch/data/images/image_files.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

bool is_image_file(const fs::path& path) {
  std::string extension = path.extension().string();
  std::ranges::transform(extension, extension.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension == ".png" || extension == ".jpg" || extension == ".jpeg";
}

/// Lists a folder, sorted, without hidden files.
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

  // Threads wait for the disk, or the file system's server, most of the time.
  void check() const override {
    constexpr size_t kThreads = 16, kAtOnce = 64, kMostNamed = 10;
    std::atomic<size_t> next = 0;
    std::mutex mutex;
    std::vector<std::pair<size_t, std::string>> bad;
    const auto check_files = [&] {
      for (size_t first = next.fetch_add(kAtOnce); first < files_.size();
           first = next.fetch_add(kAtOnce)) {
        for (size_t i = first; i < std::min(first + kAtOnce, files_.size()); ++i) {
          try {
            check_image_file(files_[i]);
          } catch (const std::exception& error) {
            const std::lock_guard lock(mutex);
            bad.emplace_back(i, message_of(error));
          }
        }
      }
    };
    {
      std::vector<std::jthread> threads;
      for (size_t i = 1; i < std::min(kThreads, files_.size() / kAtOnce); ++i) {
        threads.emplace_back(check_files);
      }
      check_files();
    }
    if (bad.empty()) return;
    std::ranges::sort(bad);
    std::string named;
    for (size_t i = 0; i < std::min(bad.size(), kMostNamed); ++i) named += "\n  " + bad[i].second;
    if (bad.size() > kMostNamed) named += fmt::format("\n  and {} more", bad.size() - kMostNamed);
    fail("{}: {} of {} images cannot be read; remove or replace them:{}", path_, bad.size(),
         files_.size(), named);
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

}  // namespace tessera
