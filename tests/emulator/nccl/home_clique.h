#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/emulator/nccl/clique.h"

namespace emulator {

/// The ranks of one communicator, in the process that made its id, and what they have called.
/// Collectives are matched in the order of the ranks' calls, messages in the order of those between
/// two ranks; calls that do not belong together end the process. A collective is done, once, when
/// all ranks have come to it.
class NcclHomeClique final : public NcclClique {
 public:
  /// That of an id's number, which is made if it is the first to ask for it, as rank `rank` of
  /// `size`, which all say alike.
  static NcclHomeClique& of(uint64_t number, int rank, int size);

  void join(ncclComm& comm) override;
  bool whole() const override;
  void connect(int rank, const NcclCall& call) override;
  bool connected(int rank, const NcclCall& call) const override;
  /// What the rank has connections for.
  std::vector<NcclLink> links(int rank) const;
  void entered(const ncclComm& comm) override;
  bool finalized() const override;
  void abort(const ncclComm& comm) override;

  /// A rank's part in a collective or message.
  struct Part {
    NcclCall call;
    std::function<bool()> come;          ///< lets the rank come to it; false if it cannot now
    std::function<void()> done = [] {};  ///< is called when the data was moved
  };
  struct Round {
    std::vector<int> ranks;
    std::map<int, Part> parts = {};
    bool wanted = false;  ///< a rank has come to it
    bool done = false;
  };

  /// Adds a rank's next call to the round that it belongs to.
  std::shared_ptr<Round> add(int rank, const Part& part);
  /// Does the round if all ranks have come to it; whether it is done.
  bool reached(Round& round);
  /// Tries again what ranks have come to, in all communicators that have ranks of other processes.
  static void do_what_is_wanted();

 private:
  NcclHomeClique(uint64_t number, int size);

  Work post(const ncclComm& comm, const NcclCall& call, Stream& stream, uint64_t ticket) override;
  std::vector<int> ranks_of(const NcclChannel& channel) const;
  void tell_guests() const;
  std::string stuck(const Round& round, const std::function<bool(std::thread::id)>& waits) const;
  /// See Standstill (standstill.h): of all communicators.
  static std::string standstill(const std::function<bool(std::thread::id)>& waits);

  std::vector<ncclComm*> members_;
  std::map<std::pair<int, NcclChannel>, uint64_t> calls_;  ///< made by a rank so far
  std::map<std::pair<NcclChannel, uint64_t>, std::shared_ptr<Round>> rounds_;  ///< not done yet
  std::map<NcclLink, std::map<int, bool>> links_;  ///< who has asked for them
};

}  // namespace emulator
