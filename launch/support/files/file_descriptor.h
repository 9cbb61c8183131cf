#pragma once

#include <unistd.h>

#include <string>
#include <system_error>
#include <utility>

namespace tessera {

/// "No such file or directory" for ENOENT; unlike std::strerror, safe among threads.
inline std::string system_message(int error_number) {
  return std::generic_category().message(error_number);
}

/// Closes a file descriptor when it ends.
class FileDescriptor {
 public:
  explicit FileDescriptor(int descriptor) : descriptor_(descriptor) {}
  ~FileDescriptor() {
    if (valid()) ::close(descriptor_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;

  bool valid() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }
  /// Leaves closing to the caller.
  int release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_;
};

}  // namespace tessera
