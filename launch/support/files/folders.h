#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// Syncs the names in `folder` to disk. Call it after creating or renaming a file.
void sync_folder(const std::filesystem::path& folder);

/// Creates `folder` and its missing parents, and syncs them to disk.
void make_folders(const std::filesystem::path& folder);

/// Renames a path. Throws, naming both paths.
void rename_path(const std::filesystem::path& from, const std::filesystem::path& to);

/// Renames a folder to an unused name. Throws, naming both paths, also if the name is in use. On
/// file systems without this check, it may replace an empty folder created in the meantime.
void rename_to_new(const std::filesystem::path& from, const std::filesystem::path& to);

/// Renames the folder `staged`, which is complete and on disk, to `target`. Returns the new path of
/// the folder that was there, or nullopt if there was none; delete it only after sync_folder() has
/// put the new name on disk. If the file system can exchange two folders and `may_exchange` is
/// true, the swap is atomic and the earlier folder is at `staged`. Otherwise the earlier folder
/// moves to `aside` first, and for a moment nothing is at `target`.
///
/// Calls `check` with the earlier folder's path once that is no longer at `target`. If `check` or a
/// rename throws, swaps back, so that `target` is as before; should even that fail, the earlier
/// folder is at `aside`.
std::optional<std::filesystem::path> swap_in_folder(
    const std::filesystem::path& staged, const std::filesystem::path& target,
    const std::filesystem::path& aside,
    const std::function<void(const std::filesystem::path& earlier)>& check,
    bool may_exchange = true);

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

/// Returns 16 random hexadecimal digits, for names that no other process chooses.
std::string random_id();

/// Deletes a folder and its contents. Throws, naming the folder.
void delete_folder(const std::filesystem::path& folder);

/// Whether a path, perhaps after a word and a colon, starts with ~/, which only a shell replaces.
bool names_home(std::string_view path);
/// The message about such a path, with the remedy.
std::string home_advice(std::string_view path);

/// Creates the parent folders of a file with this path. Throws, naming the folder, on failure.
void create_folder_of(const std::string& path);

}  // namespace tessera
