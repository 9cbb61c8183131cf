#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "tests/emulator/nccl/call.h"

namespace emulator {

/// What a rank and the process that made its communicator's id tell each other.
struct NcclMessage {
  enum class Kind : uint8_t {
    join,     ///< the rank: communicator `number`, `rank`, `ranks`, `device`
    connect,  ///< it asks for connections for `call`
    post,     ///< it has enqueued `call`, as its `number`-th
    data,     ///< it has come to its `number`-th call, and sends this
    state,    ///< it is in another `state`
    abort,    ///< it was aborted
    come,     ///< to the rank: all others have come to its `number`-th call
    result,   ///< what it receives by that
    status,   ///< `whole`, `finalized`, `error`; data: `links` connections, and the error's text
  };
  /// What a kind does not use is not set.
  struct Head {
    Kind kind;
    uint64_t number = 0;
    NcclCall call = {NcclKind::all_reduce};
    int rank = 0, ranks = 0, device = 0, state = 0;
    bool whole = false, finalized = false;
    ncclResult_t error = ncclSuccess;
    size_t links = 0;
    size_t bytes = 0;  ///< of data
  };
  Head head;
  std::vector<std::byte> data = {};
};

/// One end of a socket between two processes, with threads that read and write, so that nobody
/// waits for the other process.
class NcclConnection {
 public:
  /// Is given each message; then, once, null: the other process has ended, or closed its end.
  using Listener = std::function<void(const NcclMessage* message)>;

  static std::shared_ptr<NcclConnection> start(int socket, Listener listener);
  ~NcclConnection();
  NcclConnection(const NcclConnection&) = delete;
  NcclConnection& operator=(const NcclConnection&) = delete;

  void send(NcclMessage message);
  /// Once all is written.
  void close();

  /// Waits until all connections of the process have written all.
  static void flush();

 private:
  explicit NcclConnection(int socket) : socket_(socket) {}
  void read(const Listener& listener);
  void write();

  int socket_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<NcclMessage> outbox_;  ///< the first is being written
  bool closing_ = false, broken_ = false;
};

/// A process's socket that others connect to; not the one of processes that ended.
void listen_for_nccl();
/// Of a process that has come since the last call; −1 if none has.
int accept_nccl();
/// To the process; −1 if it is not there.
int connect_nccl(pid_t process);

}  // namespace emulator
