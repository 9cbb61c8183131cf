#pragma once

#include <cstddef>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>

#include "launch/support/files/file_descriptor.h"

namespace tessera {

/// A file that is written as PATH.tmp and takes the name PATH only when it is whole and on disk.
/// Unless publish() succeeds, nothing is left behind. An flock on it keeps other writers of PATH
/// out for as long as this lives.
class StagedFile {
 public:
  /// Throws if another StagedFile, of any process, writes PATH, or if PATH.tmp can not be created.
  /// One that an earlier crash left is replaced.
  explicit StagedFile(std::string path);
  ~StagedFile();
  StagedFile(const StagedFile&) = delete;
  StagedFile& operator=(const StagedFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);

  /// Puts everything on disk and closes the file; no write() may follow.
  void close();

  /// Removes an older file of the name PATH, if there is one. It is gone on disk, too, before
  /// anything that is done later.
  void remove_older();

  /// Gives the closed file its name, in place of any file of that name.
  void publish();

  /// Removes what publish() gave its name, if it did.
  void withdraw();

  const std::string& path() const { return path_; }

 private:
  [[noreturn]] void fail_writing(int error_number) const;

  std::string path_;
  std::string staged_path_;
  FileDescriptor lock_;  ///< of the same file as file_, which is closed before
  std::FILE* file_ = nullptr;
  bool published_ = false;
};

}  // namespace tessera
