#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "parallel/communicators/communicator.h"

namespace tessera {

struct MpiContext;

/// Elements that one MPI call moves at most. Counts are ints in MPI, and some libraries add a
/// number of ranks to them.
inline constexpr int64_t kMaxCount = int64_t{1} << 30;

/// How ranks exchange tensors.
enum class MpiTransport : uint8_t {
  automatic,  ///< ranks that all run on one host copy directly where they may, others by messages
  messages,   ///< MPI's own collectives
};

/// MPI for as long as it lives; at most one in a process. Initialises MPI so that any thread may
/// call it, one at a time, and finalizes it when destroyed; communicators of it end before. Throws
/// if the library can not do that or does not see the ranks that the launcher started.
///
/// A rank that fails must end all ranks, which may wait for it for ever: catch exceptions within
/// its life and call abort(). If one passes through it, its destructor does that instead of
/// finalizing, but can not say what the exception was.
class MpiRuntime {
 public:
  MpiRuntime();
  ~MpiRuntime();
  MpiRuntime(const MpiRuntime&) = delete;
  MpiRuntime& operator=(const MpiRuntime&) = delete;

  /// All ranks. Sums of one call are the same bits on every rank. Ranks that all run on one host
  /// copy from and to each other's memory (parallel/communicators/host/host_group.h): sums run in
  /// the order of ranks, in bf16 with one rounding at the end, and ranks that call different
  /// collectives get an error. Else they send messages: in which order sums run is MPI's choice and
  /// may change with the number of ranks, bf16 sums add pairs in fp32 and round each, and MPI does
  /// not tell when ranks call different collectives. Either moves on what is pending in the
  /// background.
  Communicator& world() { return *world_; }

  /// Prints `message` with this rank's number to stderr and ends all ranks with exit code 1.
  [[noreturn]] void abort(std::string_view message);

  /// A further communicator of all ranks, of which one MPI call moves at most `max_count` elements.
  /// MPI's own limit is the default; tests choose a smaller one. Collective.
  std::unique_ptr<Communicator> duplicate_world(MpiTransport transport = MpiTransport::automatic,
                                                int64_t max_count = kMaxCount);

 private:
  std::shared_ptr<MpiContext> context_;
  std::unique_ptr<Communicator> world_;
  int exceptions_;
};

}  // namespace tessera
