#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "launch/checkpoint/save/save.h"
#include "parallel/communicators/communicator.h"
#include "parallel/communicators/exchange.h"

namespace tessera {

/// One save (docs/checkpoints.md), step by step. Who calls the steps sees to it that all ranks have
/// done one before any begins the next. Only agree() and failure() are collective; the others may
/// run on a thread of their own.
class SaveSteps {
 public:
  explicit SaveSteps(SaveRequest request);

  /// What every rank writes, and into which folder. Collective.
  void agree(Communicator& world);
  /// Rank 0: cleans up after dead saves and makes the folder.
  void create();
  /// Writes this rank's files and syncs them; for publish(), what the other ranks have to know.
  std::string write();
  /// Rank 0, when all have written: attachments, manifest and the step's name.
  void publish(const std::vector<std::string>& written_of_rank);
  /// Rank 0, when it is published: what is too old goes. What fails is a warning.
  void prune();
  /// Rank 0, when one of the above has failed and no rank writes any more: deletes what was
  /// written.
  void discard() const;

  const SaveRequest& request() const { return request_; }
  SavePlan& plan() { return plan_; }
  /// In place of the request's: what write() shall write.
  void set_tensors(std::vector<HeldTensor> tensors) { request_.tensors = std::move(tensors); }
  /// What `error`, which ended the save on all ranks, means for the run. Collective.
  SharedError failure(const SharedError& error, Communicator& world) const;
  SavedCheckpoint saved() const;
  void observe(const char* point) const;

 private:
  SaveRequest request_;
  std::filesystem::path folder_;
  int rank_ = 0;
  SavePlan plan_;
  std::string id_;
  std::filesystem::path temporary_;
  std::vector<std::string> warnings_;
  bool publishing_ = false;
  bool named_ = false;  // on rank 0: the checkpoint has its name
};

}  // namespace tessera
