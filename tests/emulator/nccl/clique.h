#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/emulator/nccl/call.h"
#include "tests/emulator/nccl/kernels.h"
#include "tests/emulator/streams.h"

namespace emulator {

class NcclClique;
class NcclRemoteRank;

/// Ends the process because of a rank's mistake.
[[noreturn]] void nccl_fail(const std::string& what);

}  // namespace emulator

/// One rank's end of a communicator. Kept after it has ended, to report later uses.
struct ncclComm {
  enum class State { connecting, ready, finalizing, ended };

  emulator::NcclClique* clique = nullptr;
  int rank = 0;
  int device = 0;
  uint64_t host = 0;                           ///< a hash that tells hosts apart
  std::thread::id owner = {};                  ///< the thread that made its last call
  emulator::NcclRemoteRank* remote = nullptr;  ///< the rank of another process that it represents
  State state = State::connecting;
  int calls = 0;
  std::set<emulator::NcclKind> kinds;  ///< of its calls
  size_t device_bytes = 0;             ///< that it takes of its GPU
  ncclResult_t error = ncclSuccess;    ///< permanent
  std::string last_error;
  std::optional<emulator::NcclCall> connecting;   ///< the first call of its kind
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
ncclComm& new_comm(NcclClique& clique, int rank, int device, uint64_t host);

/// NCCL's hash of the host: of NCCL_HOSTID, or of the host's name. As in NCCL, the first call in a
/// process decides.
uint64_t nccl_host();

/// The ranks of one communicator as seen by one process. Lives as long as the process. All
/// functions require stream_mutex().
class NcclClique {
 public:
  NcclClique(uint64_t number, int size);
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
  /// Collectives are connected from the start if NCCL_RUNTIME_CONNECT is 0.
  bool connected(int rank, const NcclCall& call) const;

  /// Enqueues the calls as one kernel, or adds it to a graph. Unless NCCL_GRAPH_REGISTER is 0, NCCL
  /// would register the buffers of a graph, which are not from ncclMemAlloc: this ends the process.
  void enqueue(ncclComm& comm, std::vector<NcclCall> calls, Stream& stream);

  /// Reports that the rank's state has changed.
  virtual void state_changed(const ncclComm& comm) = 0;
  /// Returns whether no rank will communicate any more: all have finalized, or ended after
  /// finalizing.
  virtual bool finalized() const = 0;
  /// Makes everything that waits for this rank fail.
  virtual void abort(const ncclComm& comm) = 0;

 protected:
  virtual bool has_links(int rank, const NcclCall& call) const = 0;
  /// Returns the work of the kernel once it has started.
  virtual Work post(const ncclComm& comm, const NcclCall& call,
                    const std::shared_ptr<NcclKernel>& kernel) = 0;

 private:
  uint64_t number_;
  int size_;
  bool connects_at_runtime_, registers_in_graphs_;
};

}  // namespace emulator
