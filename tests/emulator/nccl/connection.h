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

/// A message between a rank and the process that created its communicator's id.
struct NcclMessage {
  enum class Kind : uint8_t {
    join,     ///< from the rank: communicator `number`, `rank`, `ranks`, `device`, `host`
    connect,  ///< it requests connections for `call`
    post,     ///< it has enqueued `call`, as its `number`-th
    data,     ///< it has reached its `number`-th call, and sends this
    state,    ///< its `state` has changed
    abort,    ///< it was aborted
    request,  ///< to the rank: all others have reached its `number`-th call
    result,   ///< the data it receives from that call
    status,   ///< `all_joined`, `finalized`, `error`; data: `links` connections, and the error's
              ///< text
  };
  /// Fields that a kind does not use are not set.
  struct Head {
    Kind kind;
    uint64_t number = 0;
    NcclCall call = {NcclKind::all_reduce};
    int rank = 0, ranks = 0, device = 0, state = 0;
    uint64_t host = 0;
    bool all_joined = false, finalized = false;
    ncclResult_t error = ncclSuccess;
    size_t links = 0;
    size_t bytes = 0;  ///< of data
  };
  Head head;
  std::vector<std::byte> data = {};
};

/// One end of a socket between two processes. Threads read and write, so that nobody waits for the
/// other process.
class NcclConnection {
 public:
  /// Receives each message and finally, once, null: the other process has ended or closed its end.
  using Listener = std::function<void(const NcclMessage* message)>;

  static std::shared_ptr<NcclConnection> start(int socket, Listener listener);
  ~NcclConnection();
  NcclConnection(const NcclConnection&) = delete;
  NcclConnection& operator=(const NcclConnection&) = delete;

  void send(NcclMessage message);
  /// Closes the connection after everything is written.
  void close();

  /// Waits until all connections of the process have written everything.
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

/// Creates a process's listening socket, distinct from those of processes that have ended.
void listen_for_nccl();
/// Returns the socket of a process that has connected since the last call; −1 if there is none.
int accept_nccl();
/// Connects to a process; −1 if it does not exist.
int connect_nccl(pid_t process);

}  // namespace emulator
