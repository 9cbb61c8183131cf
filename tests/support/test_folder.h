#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tessera::test {

/// A new folder that is deleted with all that is in it.
class TestFolder {
 public:
  TestFolder();
  ~TestFolder();
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

  /// The names of what is in it, in order.
  std::vector<std::string> names() const;

 private:
  std::filesystem::path path_;
};

}  // namespace tessera::test
