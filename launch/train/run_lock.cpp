#include "launch/train/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>

#include "core/error.h"

namespace tessera {

RunLock::RunLock(const std::string& run_dir)
    : file_(::open((run_dir + "/.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
  require(file_.valid(), "{}/.lock can not be opened: {}", run_dir, system_message(errno));
  if (::flock(file_.get(), LOCK_EX | LOCK_NB) == 0) return;
  // Some network file systems have no locks; there, nobody can be kept out.
  require(errno != EWOULDBLOCK,
          "run.dir {} is in use by another run: wait for it to end, or choose another run.dir",
          run_dir);
}

}  // namespace tessera
