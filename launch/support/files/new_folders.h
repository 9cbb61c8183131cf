#pragma once

#include <filesystem>
#include <vector>

namespace tessera {

/// Creates a folder and its parents, as make_folders() does. On destruction, deletes those that it
/// created and that are still empty, so that a failure leaves nothing behind.
class NewFolders {
 public:
  explicit NewFolders(const std::filesystem::path& folder);
  ~NewFolders();
  NewFolders(const NewFolders&) = delete;
  NewFolders& operator=(const NewFolders&) = delete;

 private:
  std::vector<std::filesystem::path> made_;  ///< deepest first
};

}  // namespace tessera
