#pragma once

#include <cstdint>
#include <string>

#include "launch/support/files/file_descriptor.h"

namespace tessera {

/// Keeps a second run out of a run's folder during its lifetime, by an flock on the folder. The
/// system releases the lock when the process ends for any reason.
class RunLock {
 public:
  /// Throws if another process holds the lock.
  explicit RunLock(const std::string& run_dir);

  /// Looks what is at the folder's path now: the locked folder, nothing, or another folder.
  enum class Found : uint8_t { locked, nothing, other };
  Found find() const;

 private:
  std::string run_dir_;
  FileDescriptor folder_;
};

}  // namespace tessera
