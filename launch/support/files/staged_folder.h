#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace tessera {

/// A folder that is filled under a hidden name beside PATH, a new one each time, and takes the name
/// PATH only when it is whole and on disk. Unless publish() succeeds, nothing is left behind, and
/// what is at PATH stays.
class StagedFolder {
 public:
  /// Why a folder may not be deleted for a new one, as "holds notes.txt, which is mine"; empty: it
  /// may.
  using WhyKeep = std::function<std::string(const std::filesystem::path& folder)>;

  /// Makes the hidden folder. Throws if PATH exists and `overwrite` is false, if it is no folder,
  /// or `why_keep` gives a reason.
  StagedFolder(std::filesystem::path path, bool overwrite, WhyKeep why_keep);
  ~StagedFolder();
  StagedFolder(const StagedFolder&) = delete;
  StagedFolder& operator=(const StagedFolder&) = delete;

  /// Where the files go until publish(); whoever writes one syncs it.
  const std::filesystem::path& staged() const { return staged_; }

  /// Gives the folder its name: in place of the folder that was there at the start, in one step
  /// where the file system can exchange two, or of none. Throws if something else has come to PATH
  /// since then, and keeps it. `may_exchange` is false to go the way of other file systems.
  void publish(bool may_exchange = true);

 private:
  std::filesystem::path hidden(const char* what) const;
  void require_replaceable(const std::filesystem::path& folder) const;
  void exchange();
  void replace_in_two_steps();

  std::filesystem::path path_;
  WhyKeep why_keep_;
  std::string id_;
  std::filesystem::path staged_;
  bool replaces_ = false;
  bool published_ = false;  ///< what is at staged_ is not, or no longer, the new folder
};

}  // namespace tessera
