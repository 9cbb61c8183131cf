#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/emulator/nccl/clique.h"

namespace emulator {

/// The ranks of one communicator and their calls, in the process that created its id. Collectives
/// are matched in the order of the ranks' calls, messages in the order of those between two ranks;
/// calls that do not match end the process. A collective runs once, when all ranks have reached it.
class NcclLocalClique final : public NcclClique {
 public:
  /// Returns the clique with an id's number and creates it if needed. All ranks must pass the same
  /// `size`.
  static NcclLocalClique& of(uint64_t number, int rank, int size);

  void join(ncclComm& comm) override;
  bool all_joined() const override;
  void connect(int rank, const NcclCall& call) override;
  bool has_links(int rank, const NcclCall& call) const override;
  /// The connections of the rank.
  std::vector<NcclLink> links(int rank) const;
  void state_changed(const ncclComm& comm) override;
  bool finalized() const override;
  void abort(const ncclComm& comm) override;

  /// A rank's part in a collective or message.
  struct Part {
    NcclCall call;
    std::function<bool()>
        advance;  ///< tries to advance the rank to the call; false if it cannot yet
    std::function<void()> done = [] {};  ///< called when the data has been moved
  };
  struct Round {
    std::vector<int> ranks;
    std::map<int, Part> parts = {};
    bool requested = false;  ///< a rank has reached it
    bool done = false;
  };

  /// Adds a rank's next call to its round.
  std::shared_ptr<Round> add(int rank, const Part& part);
  /// Runs the round if all ranks have reached it. Returns whether it is done.
  bool reached(Round& round);
  /// Retries the rounds that ranks have reached, in all communicators with ranks of other
  /// processes.
  static void run_requested_rounds();

 private:
  NcclLocalClique(uint64_t number, int size);

  Work post(const ncclComm& comm, const NcclCall& call,
            const std::shared_ptr<NcclKernel>& kernel) override;
  std::vector<int> ranks_of(const NcclChannel& channel) const;
  void send_statuses() const;
  std::string stuck(const Round& round, const std::function<bool(std::thread::id)>& waits) const;
  std::string stuck(const NcclLink& link, int requested_by,
                    const std::function<bool(std::thread::id)>& waits) const;
  /// See DeadlockCheck (deadlock.h); covers all communicators.
  static std::string deadlock(const std::function<bool(std::thread::id)>& waits);

  std::vector<ncclComm*> members_;
  std::map<std::pair<int, NcclChannel>, uint64_t> calls_;  ///< number of calls of a rank so far
  std::map<std::pair<NcclChannel, uint64_t>, std::shared_ptr<Round>> rounds_;  ///< not done yet
  std::map<NcclLink, std::map<int, bool>> links_;  ///< the ranks that requested them
};

}  // namespace emulator
