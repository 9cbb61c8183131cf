#pragma once

#include <filesystem>
#include <string_view>

namespace tessera {

/// A new folder in the system's folder for temporary files, which is deleted with its contents on
/// destruction.
class TemporaryFolder {
 public:
  /// Creates PREFIX-XXXXXX, readable only by this user. Throws if that is impossible.
  explicit TemporaryFolder(std::string_view prefix);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace tessera
