#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/exit_code.h"
#include "launch/checkpoint/save/save.h"
#include "parallel/communicators/communicator.h"

namespace tessera {

/// One save (docs/checkpoints.md), step by step. The caller ensures that all ranks finish one step
/// before any begins the next. Only agree() and failure() are collective; the others may run on a
/// separate thread.
class SaveSteps {
 public:
  explicit SaveSteps(SaveRequest request);

  /// Checks this rank's tensors, and agrees on the folder. Collective.
  void agree(Communicator& world);
  /// Rank 0: cleans up after dead saves and creates the folder.
  void create();
  /// Takes checksums of this rank's tensors, which are copies in host memory. write() then throws
  /// if one has changed meanwhile.
  void add_checksums();
  /// Writes this rank's files and syncs them. Returns what publish() needs from every rank.
  std::string write();
  /// Rank 0, after all have written: writes attachments and manifest, and renames the folder.
  void publish(std::vector<std::string> written_of_rank);
  /// Rank 0, after publish(): deletes old checkpoints. Failures are warnings.
  void prune();
  /// Rank 0, after one of the above failed and no rank is writing any more: deletes the written
  /// files.
  void discard() const;

  const SaveRequest& request() const { return request_; }
  /// Replaces the request's tensors for write().
  void set_tensors(std::vector<LocalTensor> tensors) { request_.tensors = std::move(tensors); }
  /// Describes what `error`, which ended the save on all ranks, means for the run. Collective.
  SharedError failure(const SharedError& error, Communicator& world) const;
  SavedCheckpoint saved() const;
  void observe(const char* point) const;

 private:
  SaveRequest request_;
  std::filesystem::path folder_;
  int rank_ = 0;
  std::string id_;
  std::filesystem::path temporary_;
  std::vector<std::string> warnings_;
  bool publishing_ = false;
  bool named_ = false;  // on rank 0: the checkpoint has its name
};

}  // namespace tessera
