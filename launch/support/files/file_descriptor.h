#pragma once

#include <unistd.h>

#include <string>
#include <system_error>
#include <utility>

namespace tessera {

/// "No such file or directory" for ENOENT. Thread-safe, unlike std::strerror.
inline std::string system_message(int error_number) {
  return std::generic_category().message(error_number);
}

/// Owns a file descriptor and closes it on destruction.
class FileDescriptor {
 public:
  explicit FileDescriptor(int descriptor) : descriptor_(descriptor) {}
  ~FileDescriptor() {
    if (valid()) ::close(descriptor_);
  }
  FileDescriptor(FileDescriptor&& other) noexcept : descriptor_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }

  bool valid() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }
  /// Returns the descriptor, which the caller must close.
  int release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_;
};

}  // namespace tessera
