#pragma once

#include <cstdint>

#include "launch/support/files/file_descriptor.h"

namespace tessera {

enum class FileLock : uint8_t {
  ours,        ///< until the file is closed, or the process ends
  of_another,  ///< another process, or another descriptor of this one, has it
  unknown,  ///< the file system has no locks, as some that are networked, or the file is not open
};

/// Tries to lock an open file or folder, without waiting.
FileLock try_to_lock(const FileDescriptor& file);

}  // namespace tessera
