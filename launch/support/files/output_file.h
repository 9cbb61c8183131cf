#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

#include "launch/support/files/file_descriptor.h"

namespace tessera {

/// A new file, written sequentially. Every function throws, naming the path and the system's
/// reason.
class OutputFile {
 public:
  /// Throws if the file exists.
  explicit OutputFile(std::filesystem::path path);

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  /// Syncs the file to disk and closes it. No writes may follow.
  void sync_and_close();

  size_t size() const { return size_; }

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
  size_t size_ = 0;
};

}  // namespace tessera
