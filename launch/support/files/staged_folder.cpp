#include "launch/support/files/staged_folder.h"

#include <fcntl.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "launch/support/files/file_lock.h"
#include "launch/support/files/folders.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

/// Removes a trailing slash: "a/b" for "a/b/".
fs::path with_name(fs::path path) {
  path = path.lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  require(path.has_filename() && path.filename() != "." && path.filename() != "..",
          "\"{}\" is not the path of a folder that can be created", path.string());
  return path;
}

/// Does not follow links. Returns not_found if nothing exists.
fs::file_type type_of(const fs::path& path) {
  std::error_code error;
  const fs::file_type type = fs::symlink_status(path, error).type();
  require(!error || type == fs::file_type::not_found, "cannot examine {}: {}", path.string(),
          error.message());
  return type;
}

FileDescriptor open_folder(const fs::path& path) {
  return FileDescriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

}  // namespace

StagedFolder::StagedFolder(fs::path path, bool overwrite, KeepReason keep_reason)
    : path_(with_name(std::move(path))),
      keep_reason_(std::move(keep_reason)),
      replaces_(type_of(path_) != fs::file_type::not_found) {
  if (replaces_) {
    require(type_of(path_) == fs::file_type::directory,
            "{} exists and is not a folder: choose another path", path_.string());
    require(overwrite, "{} already exists: choose another name, or pass --overwrite",
            path_.string());
    require_replaceable(path_);
  }
  delete_leftovers();
  make_staged();
}

void StagedFolder::make_staged() {
  for (int attempt = 0; attempt < 10; ++attempt) {
    id_ = random_id();
    staged_ = hidden("unfinished");
    make_folders(staged_);
    lock_ = open_folder(staged_);
    // Between the two calls, another program may have taken the folder for a leftover.
    if (try_to_lock(lock_) != FileLock::of_another && fs::exists(staged_)) return;
  }
  fail("{} cannot be created: it is deleted again and again", staged_.string());
}

void StagedFolder::delete_leftovers() const {
  const std::string begin = fmt::format(".{}.", path_.filename().string());
  const fs::path parent = path_.has_parent_path() ? path_.parent_path() : fs::path(".");
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(begin) || type_of(entry.path()) != fs::file_type::directory) continue;
    const std::string rest = name.substr(begin.size());
    const std::string what = rest.substr(std::min(rest.find('.'), rest.size()));  // after the id
    const bool is_unfinished = what == ".unfinished", is_replaced = what == ".replaced";
    // Between two renames, a replaced folder is the only one.
    if (!is_unfinished && !(is_replaced && fs::exists(path_))) continue;
    const FileDescriptor folder = open_folder(entry.path());
    if (try_to_lock(folder) == FileLock::ours) fs::remove_all(entry.path(), ignored);
  }
}

StagedFolder::~StagedFolder() {
  if (published_) return;
  std::error_code ignored;
  fs::remove_all(staged_, ignored);
}

fs::path StagedFolder::hidden(const char* what) const {
  return path_.parent_path() / fmt::format(".{}.{}.{}", path_.filename().string(), id_, what);
}

/// `folder` is at PATH now, or was until just now.
void StagedFolder::require_replaceable(const fs::path& folder) const {
  const bool is_folder = type_of(folder) == fs::file_type::directory;
  const auto reason = is_folder ? keep_reason_(folder) : "is not a folder";
  if (reason) fail("{} {}: nothing was deleted; choose another folder", path_.string(), *reason);
}

void StagedFolder::publish(bool may_exchange) {
  sync_folder(staged_);
  std::optional<fs::path> earlier;
  if (replaces_) {
    const auto check = [this](const fs::path& found) { require_replaceable(found); };
    earlier = swap_in_folder(staged_, path_, hidden("replaced"), check, may_exchange);
  } else {
    rename_to_new(staged_, path_);
  }
  published_ = true;
  sync_folder(path_.has_parent_path() ? path_.parent_path() : fs::path("."));
  if (earlier) delete_folder(*earlier);
}

}  // namespace tessera
