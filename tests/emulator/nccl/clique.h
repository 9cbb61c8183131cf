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
class NcclGuest;

/// Ends the process: what a rank did cannot be right.
[[noreturn]] void nccl_fail(const std::string& what);

}  // namespace emulator

/// One rank's end of a communicator. It is kept when it has ended, to tell of who uses it then.
struct ncclComm {
  enum class State { connecting, ready, starting, finalizing, finalized, ended };

  emulator::NcclClique* clique = nullptr;
  int rank = 0;
  int device = 0;
  std::thread::id owner = std::this_thread::get_id();
  emulator::NcclGuest* guest = nullptr;  ///< the rank of another process that it stands for
  State state = State::connecting;
  int polls = 0;  ///< since it is in this state
  int calls = 0;
  ncclResult_t error = ncclSuccess;  ///< for good
  std::string last_error;
  std::optional<std::pair<emulator::NcclCall, emulator::Stream*>>
      first_of_kind;                                       ///< what is starting
  std::map<emulator::Stream*, uint64_t> tickets;           ///< of its last work
  std::shared_ptr<void> graphs = std::make_shared<int>();  ///< which have calls of it own it, too

  /// "rank 1 of communicator 3 (4 ranks)"
  std::string name() const;
  bool has_ended() const { return state == State::ended; }
  void fail(ncclResult_t code, const std::string& why);
};

namespace emulator {

/// One more end of a communicator, which lasts as long as the process.
ncclComm& new_comm(NcclClique& clique, int rank, int device);

/// The ranks of one communicator as those of one process see them. It lasts as long as the process.
/// All calls are to be made with stream_mutex() held.
class NcclClique {
 public:
  NcclClique(uint64_t number, int size) : number_(number), size_(size) {}
  virtual ~NcclClique() = default;
  NcclClique(const NcclClique&) = delete;
  NcclClique& operator=(const NcclClique&) = delete;

  int size() const { return size_; }
  uint64_t number() const { return number_; }

  virtual void join(ncclComm& comm) = 0;
  /// Whether all ranks are there.
  virtual bool whole() const = 0;

  /// Asks for connections for what `call` needs; they exist when all who take part have asked.
  virtual void connect(int rank, const NcclCall& call) = 0;
  virtual bool connected(int rank, const NcclCall& call) const = 0;

  /// Enqueues the call, or keeps it for a graph.
  void enqueue(ncclComm& comm, const NcclCall& call, Stream& stream);

  /// The rank has come into another state.
  virtual void entered(const ncclComm& comm) = 0;
  /// Whether no other rank has more to say: all have finalized, or ended after that.
  virtual bool finalized() const = 0;
  /// What waits for this rank fails.
  virtual void abort(const ncclComm& comm) = 0;

 protected:
  /// What a stream does when it comes to the call, its `ticket`-th work.
  virtual Work post(const ncclComm& comm, const NcclCall& call, Stream& stream,
                    uint64_t ticket) = 0;

 private:
  uint64_t number_;
  int size_;
};

}  // namespace emulator
