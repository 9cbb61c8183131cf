#include "launch/support/files/file_lock.h"

#include <sys/file.h>

#include <cerrno>

namespace tessera {

FileLock try_to_lock(const FileDescriptor& file) {
  if (!file.valid()) return FileLock::unknown;
  if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) return FileLock::ours;
  return errno == EWOULDBLOCK ? FileLock::of_another : FileLock::unknown;
}

}  // namespace tessera
