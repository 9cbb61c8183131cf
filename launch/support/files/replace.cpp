#include "launch/support/files/replace.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <mutex>
#include <optional>
#include <set>
#include <tuple>

#include "core/error.h"

namespace tessera {
namespace {

/// Device, inode, and the time of its creation, since the number of a deleted one is used again.
using Identity = std::tuple<uint32_t, uint32_t, uint64_t, int64_t, uint32_t>;

struct Inputs {
  std::mutex mutex;
  std::set<Identity> known;
};

Inputs& inputs() {
  static Inputs all;
  return all;
}

struct Status {
  Identity identity;
  mode_t mode = 0;
};

/// Returns nullopt if there is no such file, or if the system does not show it.
std::optional<Status> status_of(int folder, const char* path, int flags) {
  struct statx found = {};
  const unsigned wanted = STATX_BASIC_STATS | STATX_BTIME;
  if (::statx(folder, path, flags, wanted, &found) != 0) return std::nullopt;
  return Status{{found.stx_dev_major, found.stx_dev_minor, found.stx_ino, found.stx_btime.tv_sec,
                 found.stx_btime.tv_nsec},
                found.stx_mode};
}

void remember(const std::optional<Status>& status) {
  if (!status) return;
  const std::lock_guard lock(inputs().mutex);
  inputs().known.insert(status->identity);
}

void require_no_input(const std::string& path) {
  require(!is_input(path),
          "{}: this command reads it, so it cannot be its output: choose another output", path);
}

}  // namespace

void remember_input(const std::string& path) { remember(status_of(AT_FDCWD, path.c_str(), 0)); }

void remember_input(int descriptor) { remember(status_of(descriptor, "", AT_EMPTY_PATH)); }

bool is_input(const std::string& path) {
  const std::optional<Status> file = status_of(AT_FDCWD, path.c_str(), 0);
  const std::lock_guard lock(inputs().mutex);
  return file && inputs().known.contains(file->identity);
}

void require_replaceable(const std::string& path, Replace replace) {
  if (replace != Replace::own) {
    require_no_input(path);
    require_no_input(path + ".tmp");  // where StagedFile writes it first
  }
  const std::optional<Status> link = status_of(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW);
  if (!link) return;
  const std::optional<Status> file = status_of(AT_FDCWD, path.c_str(), 0);
  // Links that the system needs, to whatever this process has open.
  const bool is_descriptor =
      path.starts_with("/dev/std") || path.starts_with("/dev/fd/") || path.starts_with("/proc/");
  require(!file || (S_ISREG(file->mode) && !is_descriptor),
          "{}: is not a regular file, so no file can replace it: choose another name", path);
  require(replace != Replace::refuse, "{} already exists: choose another name, or pass --overwrite",
          path);
}

}  // namespace tessera
