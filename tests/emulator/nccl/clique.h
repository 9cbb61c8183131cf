#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "tests/emulator/nccl/call.h"
#include "tests/emulator/streams.h"

namespace emulator {

class NcclClique;
class NcclRemoteRank;

/// Ends the process because of a rank's mistake.
[[noreturn]] void nccl_fail(const std::string& what);

}  // namespace emulator

/// One rank's end of a communicator. Kept after it has ended, to report later uses.
struct ncclComm {
  enum class State { connecting, ready, starting, finalizing, finalized, ended };

  emulator::NcclClique* clique = nullptr;
  int rank = 0;
  int device = 0;
  std::thread::id owner = std::this_thread::get_id();
  emulator::NcclRemoteRank* remote = nullptr;  ///< the rank of another process that it represents
  State state = State::connecting;
  int polls = 0;  ///< since the last change of state
  int calls = 0;
  ncclResult_t error = ncclSuccess;  ///< permanent
  std::string last_error;
  std::optional<std::pair<emulator::NcclCall, emulator::Stream*>>
      first_of_kind;                              ///< the call being connected
  std::map<emulator::Stream*, uint64_t> tickets;  ///< of its last work
  std::shared_ptr<void> graphs =
      std::make_shared<int>();  ///< also owned by graphs that contain its calls

  /// "rank 1 of communicator 3 (4 ranks)"
  std::string name() const;
  bool has_ended() const { return state == State::ended; }
  void fail(ncclResult_t code, const std::string& why);
};

namespace emulator {

/// Creates another end of a communicator, which lives as long as the process.
ncclComm& new_comm(NcclClique& clique, int rank, int device);

/// The ranks of one communicator as seen by one process. Lives as long as the process. All
/// functions require stream_mutex().
class NcclClique {
 public:
  NcclClique(uint64_t number, int size) : number_(number), size_(size) {}
  virtual ~NcclClique() = default;
  NcclClique(const NcclClique&) = delete;
  NcclClique& operator=(const NcclClique&) = delete;

  int size() const { return size_; }
  uint64_t number() const { return number_; }

  virtual void join(ncclComm& comm) = 0;
  /// Returns whether all ranks have joined.
  virtual bool all_joined() const = 0;

  /// Requests the connections for `call`. They exist once all participants have requested them.
  virtual void connect(int rank, const NcclCall& call) = 0;
  virtual bool connected(int rank, const NcclCall& call) const = 0;

  /// Enqueues the call, or adds it to a graph.
  void enqueue(ncclComm& comm, const NcclCall& call, Stream& stream);

  /// Reports that the rank's state has changed.
  virtual void state_changed(const ncclComm& comm) = 0;
  /// Returns whether no rank will communicate any more: all have finalized, or ended after
  /// finalizing.
  virtual bool finalized() const = 0;
  /// Makes everything that waits for this rank fail.
  virtual void abort(const ncclComm& comm) = 0;

 protected:
  /// Returns the work of a stream that reaches the call, its `ticket`-th piece of work.
  virtual Work post(const ncclComm& comm, const NcclCall& call, Stream& stream,
                    uint64_t ticket) = 0;

 private:
  uint64_t number_;
  int size_;
};

}  // namespace emulator
