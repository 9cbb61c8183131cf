#pragma once

#include <filesystem>
#include <vector>

namespace tessera {

/// Makes a folder and its parents, as make_folders() does, and deletes those that it made and that
/// are empty at its end, so that what failed leaves nothing behind.
class NewFolders {
 public:
  explicit NewFolders(const std::filesystem::path& folder);
  ~NewFolders();
  NewFolders(const NewFolders&) = delete;
  NewFolders& operator=(const NewFolders&) = delete;

 private:
  std::vector<std::filesystem::path> made_;  ///< the deepest first
};

}  // namespace tessera
