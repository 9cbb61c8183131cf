#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/simt/nccl/call.h"
#include "tests/simt/streams.h"

namespace simt {

class NcclClique;

/// Ends the process: what a rank did can not be right.
[[noreturn]] void nccl_fail(const std::string& what);

}  // namespace simt

/// One rank's end of a communicator. It is kept when it has ended, to tell of who uses it then.
struct ncclComm {
  enum class State { connecting, ready, starting, finalizing, finalized, ended };

  simt::NcclClique* clique = nullptr;
  int rank = 0;
  int device = 0;
  std::thread::id owner = std::this_thread::get_id();
  State state = State::connecting;
  int polls = 0;  ///< since it is in this state
  int calls = 0;
  ncclResult_t error = ncclSuccess;  ///< for good
  std::string last_error;
  std::optional<std::pair<simt::NcclCall, simt::Stream*>> first_of_kind;  ///< what is starting
  std::map<simt::Stream*, uint64_t> tickets;                              ///< of its last work
  std::shared_ptr<void> graphs = std::make_shared<int>();  ///< which have calls of it own it, too

  /// "rank 1 of communicator 3 (4 ranks)"
  std::string name() const;
  void fail(ncclResult_t code, const std::string& why);
};

namespace simt {

/// The ranks of one communicator, and what they have called. Collectives are matched in the order
/// of the ranks' calls, messages in the order of those between two ranks; calls that do not belong
/// together end the process. A collective is done, once, when the streams of all ranks have come
/// to it, which stand still until then. It lasts as long as the process. All calls are to be made
/// with stream_mutex() held.
class NcclClique {
 public:
  explicit NcclClique(int size);

  int size() const { return static_cast<int>(members_.size()); }
  int number() const { return number_; }

  void join(ncclComm& comm);
  /// Whether all ranks are there.
  bool whole() const;

  /// Whether connections for what `call` needs exist, or all who take part have asked for them.
  bool connected(int rank, const NcclCall& call) const;
  bool connect(int rank, const NcclCall& call);

  /// Enqueues the call, or keeps it for a graph.
  void enqueue(ncclComm& comm, const NcclCall& call, Stream& stream);

  /// Whether no other rank has more to say: all have finalized, or ended after that.
  bool finalized() const;
  /// What waits for this rank fails.
  void abort(const ncclComm& comm);

  /// See Standstill (standstill.h): of all communicators.
  static std::string standstill(const std::function<bool(std::thread::id)>& waits);

 private:
  /// Between which ranks: {-1, -1} are all.
  using Channel = std::pair<int, int>;
  /// What needs connections of its own.
  using Link = std::pair<NcclKind, Channel>;

  struct Posted {
    NcclCall call;
    Stream* stream;
    uint64_t ticket;
  };
  struct Round {
    std::vector<int> ranks;
    std::map<int, Posted> posted = {};
    bool done = false;
  };

  static Channel channel_of(int rank, const NcclCall& call);
  static Link link_of(int rank, const NcclCall& call);
  std::vector<int> ranks_of(const Channel& channel) const;
  std::shared_ptr<Round> round_of(int rank, const NcclCall& call);
  void post(ncclComm& comm, const NcclCall& call, Stream& stream);
  bool reached(Round& round, int rank);
  std::string stuck(const Round& round, const std::function<bool(std::thread::id)>& waits) const;

  int number_;
  std::vector<ncclComm*> members_;
  std::map<std::pair<int, Channel>, uint64_t> calls_;  ///< made by a rank so far
  std::map<std::pair<Channel, uint64_t>, std::shared_ptr<Round>> rounds_;  ///< not done yet
  std::map<Link, std::map<int, bool>> links_;  ///< who has asked for them
};

}  // namespace simt
