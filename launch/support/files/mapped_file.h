#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "launch/support/files/known_mappings.h"

namespace tessera {

/// A regular file, mapped read-only. Its pages are the operating system's cache: ranks on one
/// machine share them, and pages are read on first access.
///
/// If another process truncates the mapped file, reading beyond the new end is fatal (SIGBUS);
/// explain_bus_errors() makes the program say so.
class MappedFile {
 public:
  /// Throws, naming the path and the reason, if the file cannot be opened, is not regular, or is a
  /// pointer of Git LFS.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  /// The whole file; empty for an empty file. Valid while this object, or the object it was moved
  /// to, exists.
  std::span<const std::byte> bytes() const { return bytes_; }
  std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }
  size_t size() const { return bytes_.size(); }

  /// Hints that the bytes [begin, begin + count) will be read, so that the system prefetches them.
  /// They must be within the file.
  void will_read(size_t begin, size_t count) const;

  const std::string& path() const { return path_; }

 private:
  void unmap();

  std::string path_;
  std::span<const std::byte> bytes_;
  KnownMapping known_;
};

/// Returns a checksum of the file's size and of 64 blocks of 4 KiB spread evenly over it, including
/// the first and last. Covers all of a small file, and is cheap for any size.
std::string sampled_checksum(const MappedFile& file);

}  // namespace tessera
