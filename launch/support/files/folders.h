#pragma once

#include <filesystem>
#include <string>

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

/// Deletes a folder and its contents. Throws, naming the folder.
void delete_folder(const std::filesystem::path& folder);

/// Exchanges two folders atomically. Returns false if the file system does not support this.
bool exchange_paths(const std::filesystem::path& a, const std::filesystem::path& b);

/// Creates the parent folders of a file with this path. Throws, naming the folder, on failure.
void create_folder_of(const std::string& path);

}  // namespace tessera
