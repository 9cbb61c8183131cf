#include "launch/train/start/run_lock.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "core/error.h"
#include "launch/support/files/file_lock.h"

namespace tessera {

RunLock::RunLock(const std::string& run_dir)
    : run_dir_(run_dir), folder_(::open(run_dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  require(folder_.valid(), "run.dir {} cannot be opened: {}", run_dir, system_message(errno));
  // Some network file systems have no locks; there, a second run cannot be kept out.
  require(try_to_lock(folder_) != FileLock::of_another,
          "run.dir {} is in use by another run: wait for it to end, or choose another run.dir",
          run_dir);
}

RunLock::Found RunLock::find() const {
  struct stat named = {}, locked = {};
  if (::stat(run_dir_.c_str(), &named) != 0) {
    // Saving knows more about other errors, such as a lost connection.
    return errno == ENOENT ? Found::nothing : Found::locked;
  }
  const bool is_open = ::fstat(folder_.get(), &locked) == 0;
  require(is_open, "run.dir {}: {}", run_dir_, system_message(errno));
  const bool same = named.st_dev == locked.st_dev && named.st_ino == locked.st_ino;
  return same ? Found::locked : Found::other;
}

}  // namespace tessera
