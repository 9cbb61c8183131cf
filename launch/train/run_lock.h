#pragma once

#include <string>

#include "launch/support/files/file_descriptor.h"

namespace tessera {

/// Keeps a second run out of a run's folder for as long as it lives, by an flock on the folder. The
/// system lets go of it when the process ends, however it ends.
class RunLock {
 public:
  /// Throws if another process holds the lock.
  explicit RunLock(const std::string& run_dir);

 private:
  FileDescriptor folder_;
};

}  // namespace tessera
