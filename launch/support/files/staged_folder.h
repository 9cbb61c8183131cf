#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "launch/support/files/file_descriptor.h"

namespace tessera {

/// A folder that is filled under a unique hidden name beside PATH and renamed to PATH once it is
/// complete and on disk. Unless publish() succeeds, it leaves nothing behind and PATH is unchanged.
/// Deletes first what a killed program has left behind for PATH.
class StagedFolder {
 public:
  /// Returns why a folder may not be replaced, for example "holds notes.txt, which is mine", or
  /// nullopt if it may.
  using KeepReason = std::function<std::optional<std::string>(const std::filesystem::path& folder)>;

  /// Creates the hidden folder. Throws if PATH exists and `overwrite` is false, if PATH is not a
  /// folder, or if `keep_reason` returns one.
  StagedFolder(std::filesystem::path path, bool overwrite, KeepReason keep_reason);
  ~StagedFolder();
  StagedFolder(const StagedFolder&) = delete;
  StagedFolder& operator=(const StagedFolder&) = delete;

  /// The folder to write files to until publish(). Callers sync the files they write.
  const std::filesystem::path& staged() const { return staged_; }

  /// Renames the folder to PATH. Replaces the folder that was there at construction, atomically if
  /// the file system can exchange two folders. Throws and keeps PATH if it has changed since. Tests
  /// set `may_exchange` to false to cover other file systems.
  void publish(bool may_exchange = true);

 private:
  std::filesystem::path hidden(const char* what) const;
  void delete_leftovers() const;
  void make_staged();
  void require_replaceable(const std::filesystem::path& folder) const;

  std::filesystem::path path_;
  KeepReason keep_reason_;
  std::string id_;
  std::filesystem::path staged_;
  FileDescriptor lock_{-1};  // of staged_, so that others know that it is in use
  bool replaces_ = false;
  bool published_ = false;
};

}  // namespace tessera
