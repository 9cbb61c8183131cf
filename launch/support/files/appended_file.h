#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "launch/support/files/file_descriptor.h"

namespace tessera {

/// A file that grows by whole records, of which readers never see a part for long. Records that
/// cannot be written, as on a full disk, are kept and written before the next one.
class AppendedFile {
 public:
  /// Appends to the file at `path`, or creates it. Throws if it cannot be opened.
  explicit AppendedFile(const std::filesystem::path& path);

  void append(std::string_view record);

  /// Why the last records could not be written, or nullopt. Tries again.
  std::optional<std::string> problem();

 private:
  FileDescriptor file_;
  off_t written_ = 0;  // bytes of whole records
  std::string waiting_;
};

}  // namespace tessera
