#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>

#include "core/exit_code.h"
#include "parallel/communicators/communicator.h"

namespace tessera {

struct MpiContext;

/// How a communicator, and those split from it, move tensors. Tests change the defaults.
struct MpiTransport {
  /// Largest number of bytes per MPI call. MPI counts are ints, and some libraries add to them.
  size_t max_bytes = size_t{1} << 30;
  /// If set, ranks of the world for which this returns different numbers count as on different
  /// hosts. The same function on all ranks.
  std::function<int(int world_rank)> simulated_host = nullptr;
};

/// Initializes MPI for its lifetime; at most one per process. Any thread may call MPI, one at a
/// time. The destructor finalizes MPI; destroy all its communicators first. Throws if the library
/// does not support this or does not see the ranks that the launcher started.
///
/// A failing rank must end all ranks, which may otherwise wait for it forever: catch exceptions
/// within the runtime's lifetime and call abort(). If an exception propagates through it, the
/// destructor aborts instead of finalizing, but cannot print the exception's message.
class MpiRuntime {
 public:
  MpiRuntime();
  ~MpiRuntime();
  MpiRuntime(const MpiRuntime&) = delete;
  MpiRuntime& operator=(const MpiRuntime&) = delete;

  /// The communicator of all ranks. Ranks of one host, as MPI sees it, copy from and to each
  /// other's memory if they may, and ranks of different hosts send messages
  /// (parallel/communicators/host/host_group.h). Sums have the same bits for any placement of the
  /// ranks on hosts, and bf16 rounds once at the end. Ranks of one host that call different
  /// collectives get an error; ranks of different hosts then wait for each other. Pending
  /// collectives advance in the background.
  Communicator& world() { return *world_; }

  /// Prints `message` with this rank's number to stderr and ends all ranks with this exit code.
  [[noreturn]] void abort(std::string_view message, ExitCode code = ExitCode::failed);

  /// Creates another communicator of all ranks. Collective.
  std::unique_ptr<Communicator> duplicate_world(const MpiTransport& transport = {});

 private:
  std::shared_ptr<MpiContext> context_;
  std::unique_ptr<Communicator> world_;
  int exceptions_;
};

}  // namespace tessera
