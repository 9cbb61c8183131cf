#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "core/exit_code.h"
#include "parallel/communicators/communicator.h"

namespace tessera {

struct MpiContext;

/// Maximum number of elements per MPI call. MPI counts are ints, and some libraries add a number of
/// ranks to them.
inline constexpr int64_t kMaxCount = int64_t{1} << 30;

/// The transport for tensors.
enum class MpiTransport : uint8_t {
  automatic,  ///< direct copies if all ranks run on one host and may, else messages
  messages,   ///< MPI's own collectives
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

  /// The communicator of all ranks. A sum has the same bits on every rank. If all ranks run on one
  /// host, they copy from and to each other's memory (parallel/communicators/host/host_group.h):
  /// sums run in rank order, bf16 rounds once at the end, and ranks that call different collectives
  /// get an error. Otherwise they send messages: MPI chooses the order of sums, which may change
  /// with the number of ranks, bf16 sums add pairs in fp32 and round each, and MPI does not detect
  /// different collectives. Both transports advance pending collectives in the background.
  Communicator& world() { return *world_; }

  /// Prints `message` with this rank's number to stderr and ends all ranks with this exit code.
  [[noreturn]] void abort(std::string_view message, ExitCode code = ExitCode::failed);

  /// Creates another communicator of all ranks that moves at most `max_count` elements per MPI
  /// call. The default is MPI's own limit; tests choose a smaller one. Collective.
  std::unique_ptr<Communicator> duplicate_world(MpiTransport transport = MpiTransport::automatic,
                                                int64_t max_count = kMaxCount);

 private:
  std::shared_ptr<MpiContext> context_;
  std::unique_ptr<Communicator> world_;
  int exceptions_;
};

}  // namespace tessera
