#pragma once

#include <cstddef>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>

namespace tessera {

/// A file that is written as PATH.tmp and takes the name PATH only when it is whole and on disk.
/// Unless publish() succeeds, nothing is left behind.
class StagedFile {
 public:
  /// Throws if PATH.tmp can not be created. One that an earlier crash left is replaced.
  explicit StagedFile(std::string path);
  ~StagedFile();
  StagedFile(const StagedFile&) = delete;
  StagedFile& operator=(const StagedFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);

  /// Puts everything on disk and closes the file; no write() may follow.
  void close();

  /// Gives the closed file its name, in place of any file of that name.
  void publish();

  const std::string& path() const { return path_; }

 private:
  [[noreturn]] void fail_writing(int error_number) const;

  std::string path_;
  std::string staged_path_;
  std::FILE* file_ = nullptr;
  bool published_ = false;
};

}  // namespace tessera
