#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace tessera {

/// A regular file mapped read-only into memory. The pages are the operating system's cache: ranks
/// on one machine that map the same file share them, and nothing is read before it is touched.
///
/// Whoever shortens the file while it is mapped makes reads beyond its new end fatal (SIGBUS).
class MappedFile {
 public:
  /// Throws, naming the path and the reason, if the file can not be opened or is not regular.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  /// The whole file; empty for an empty file. Valid as long as this object, or the one that it was
  /// moved to.
  std::span<const std::byte> bytes() const { return bytes_; }
  std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }
  size_t size() const { return bytes_.size(); }

  /// Lets the system read bytes [begin, begin + count), which are within the file, without waiting
  /// for them: a hint.
  void will_read(size_t begin, size_t count) const;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::span<const std::byte> bytes_;
};

/// The checksum of the file's size and of 64 blocks of 4 KiB that are spread evenly over it, the
/// first and the last among them: all of a small file, and cheap for one of any size.
std::string sampled_checksum(const MappedFile& file);

}  // namespace tessera
