#pragma once

#include <cerrno>
#include <filesystem>

#include "core/error.h"
#include "launch/support/files/file_descriptor.h"

namespace tessera {

/// Throws "cannot <verb> <path>: <reason from errno>".
[[noreturn]] inline void fail_with_errno(const char* verb, const std::filesystem::path& path) {
  const int reason = errno;
  fail("cannot {} {}: {}", verb, path.string(), system_message(reason));
}

}  // namespace tessera
