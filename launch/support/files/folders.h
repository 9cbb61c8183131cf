#pragma once

#include <filesystem>
#include <string>

namespace tessera {

/// Returns when the names in `folder` are on the disk: needed after a file is created or renamed.
void sync_folder(const std::filesystem::path& folder);

/// Creates `folder` and its parents where they are missing, on the disk.
void make_folders(const std::filesystem::path& folder);

/// Renames; throws naming both paths.
void rename_path(const std::filesystem::path& from, const std::filesystem::path& to);

/// Renames a folder to a name that nothing has; throws naming both paths, too, if something has it.
/// File systems that can not refuse a name themselves may still replace an empty folder that came
/// to it in the meantime.
void rename_to_new(const std::filesystem::path& from, const std::filesystem::path& to);

/// Deletes a folder and all in it; throws naming it.
void delete_folder(const std::filesystem::path& folder);

/// Exchanges two folders in one step; false where the file system can not do that.
bool exchange_paths(const std::filesystem::path& a, const std::filesystem::path& b);

/// Makes the folder that a file of this path lies in, and those above it. Throws, naming it, if
/// that can not be.
void create_folder_of(const std::string& path);

}  // namespace tessera
