#include "launch/support/files/folders.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <random>
#include <system_error>

#include "core/error.h"
#include "launch/support/files/file_descriptor.h"
#include "launch/support/files/path_error.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

/// Atomic. Returns false if the file system does not support this.
bool exchange_paths(const fs::path& a, const fs::path& b) {
  return renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0;
}

}  // namespace

void sync_folder(const fs::path& folder) {
  const FileDescriptor file(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (file.get() < 0) fail_with_errno("open", folder);
  if (fsync(file.get()) != 0) fail_with_errno("sync", folder);
}

void make_folders(const fs::path& folder) {
  if (folder.empty() || fs::is_directory(folder)) return;
  make_folders(folder.parent_path());
  if (mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) fail_with_errno("create", folder);
  sync_folder(folder.has_parent_path() ? folder.parent_path() : fs::path("."));
}

void rename_path(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  require(!error, "cannot rename {} to {}: {}", from.string(), to.string(), error.message());
}

void rename_to_new(const fs::path& from, const fs::path& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return;
  const int reason = errno;
  require(reason == EINVAL || reason == ENOSYS, "cannot rename {} to {}: {}", from.string(),
          to.string(), system_message(reason));
  require(!fs::exists(fs::symlink_status(to)), "cannot rename {} to {}, which exists",
          from.string(), to.string());
  rename_path(from, to);
}

std::optional<fs::path> swap_in_folder(const fs::path& staged, const fs::path& target,
                                       const fs::path& aside,
                                       const std::function<void(const fs::path& earlier)>& check,
                                       bool may_exchange) {
  if (!fs::exists(fs::symlink_status(target))) {
    rename_to_new(staged, target);
    return std::nullopt;
  }
  if (may_exchange && exchange_paths(staged, target)) {
    try {
      check(staged);
    } catch (...) {
      if (!exchange_paths(staged, target)) rename_path(staged, aside);
      throw;
    }
    return staged;
  }
  rename_path(target, aside);
  try {
    check(aside);
    rename_to_new(staged, target);
  } catch (...) {
    rename_to_new(aside, target);
    throw;
  }
  return aside;
}

NewFolders::NewFolders(const fs::path& folder) {
  fs::path missing = folder;
  for (; !missing.empty() && !fs::exists(missing); missing = missing.parent_path()) {
    made_.push_back(missing);
  }
  make_folders(folder);
}

NewFolders::~NewFolders() {
  std::error_code ignored;
  for (const fs::path& folder : made_) fs::remove(folder, ignored);  // only removes empty folders
}

std::string random_id() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

void delete_folder(const fs::path& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  require(!error, "cannot delete {}: {}", folder.string(), error.message());
}

bool names_home(std::string_view path) {
  return path.starts_with("~/") || path.find(":~/") < path.find_first_of("/ ");
}

std::string home_advice(std::string_view path) {
  return fmt::format(
      "{}: only a shell replaces ~, and only at the start of a word: write $HOME there, or the "
      "whole path",
      path);
}

void create_folder_of(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  if (folder.empty()) return;
  std::error_code error;
  fs::create_directories(folder, error);
  require(!error, "folder {} of the output cannot be created: {}", folder.string(),
          error.message());
}

}  // namespace tessera
