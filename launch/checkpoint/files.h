#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace tessera {

/// Owns a file descriptor.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor();
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  FileDescriptor& operator=(FileDescriptor&&) = delete;

  int get() const { return fd_; }
  /// Gives the descriptor to the caller.
  int release();

 private:
  int fd_;
};

/// A new file, written from begin to end. Every function throws, naming the path and the system's
/// reason.
class OutputFile {
 public:
  /// Throws if the file exists.
  explicit OutputFile(std::filesystem::path path);

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  /// Returns when the file's bytes are on the disk; nothing can be written after it.
  void sync_and_close();

  size_t size() const { return size_; }

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
  size_t size_ = 0;
};

/// A regular file mapped into memory for reading. Its pages come from the disk when they are
/// touched; a file that is truncated while it is mapped ends the process (SIGBUS).
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept : bytes_(other.bytes_) { other.bytes_ = {}; }
  MappedFile& operator=(MappedFile&&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }
  std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }

 private:
  std::span<const std::byte> bytes_;
};

/// Returns when the names in `folder` are on the disk: needed after a file is created or renamed.
void sync_folder(const std::filesystem::path& folder);

/// Creates `folder` and its parents where they are missing, on the disk.
void make_folders(const std::filesystem::path& folder);

/// Renames; throws naming both paths.
void rename_path(const std::filesystem::path& from, const std::filesystem::path& to);

/// Exchanges two folders in one step; false where the file system can not do that.
bool exchange_paths(const std::filesystem::path& a, const std::filesystem::path& b);

}  // namespace tessera
