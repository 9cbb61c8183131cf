#pragma once

#include <cstddef>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>

#include "launch/support/files/file_descriptor.h"
#include "launch/support/files/replace.h"

namespace tessera {

/// A file written as PATH.tmp and renamed to PATH once it is complete and on disk. Unless publish()
/// succeeds, it leaves nothing behind. An flock excludes other writers of PATH while this object
/// exists.
class StagedFile {
 public:
  /// Throws if `replace` does not let it replace PATH, if another StagedFile of any process is
  /// writing PATH, or if PATH.tmp cannot be created. Replaces a PATH.tmp left behind by a crash.
  StagedFile(std::string path, Replace replace);
  ~StagedFile();
  StagedFile(const StagedFile&) = delete;
  StagedFile& operator=(const StagedFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);

  /// Removes all bytes from `size` on. The next write() continues there.
  void truncate(size_t size);

  /// Reads bytes that were written, from `begin` on. Throws if there are fewer.
  void read(size_t begin, std::span<std::byte> out);

  /// Syncs and closes the file. No other access may follow.
  void close();

  /// Removes an existing PATH, if any, and syncs the removal before returning.
  void remove_older();

  /// Renames the closed file to PATH. Throws if `replace` does not let it replace a file that has
  /// appeared there.
  void publish();

  /// Removes PATH if publish() created it.
  void withdraw();

  const std::string& path() const { return path_; }

 private:
  [[noreturn]] void fail_writing(int error_number) const;

  std::string path_;
  Replace replace_;
  std::string staged_path_;
  FileDescriptor lock_;  ///< refers to the same file as file_, which is closed first
  std::FILE* file_ = nullptr;
  bool published_ = false;
};

}  // namespace tessera
