#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "parallel/communicators/communicator.h"
#include "parallel/communicators/traffic.h"

namespace tessera {

/// One rank's call of a collective, with the memory that it gave, as the ranks of a host tell each
/// other.
struct HostCall {
  /// The most bytes of an all-reduce whose input travels with the call.
  static constexpr int64_t kSmall = 2048;

  Collective collective = Collective::barrier;
  DType dtype = DType::u8;
  ReduceOp op = ReduceOp::sum;
  int32_t root = 0;   ///< of a broadcast
  int64_t count = 0;  ///< elements: of an all-gather's input, a reduce-scatter's output, or all
  const std::byte* input = nullptr;
  std::byte* output = nullptr;  ///< the input's own memory where a collective is in place

  int64_t bytes() const { return count * static_cast<int64_t>(size_of(dtype)); }
  bool is_small() const { return collective == Collective::all_reduce && bytes() <= kSmall; }
};

/// "all_reduce (sum) of 1000 f32".
std::string describe(const HostCall& call);

/// Whether these are the same call of two ranks.
bool same_collective(const HostCall& a, const HostCall& b);

/// A call as rank `rank` of a group sees it.
struct HostCallOfAll {
  int rank;
  std::span<const HostCall> calls;  ///< of all ranks, each with that rank's addresses
  std::span<const pid_t> processes;
  std::span<const std::byte* const> small;  ///< of all ranks, the inputs of a small call
};

/// Does this rank's part of a call: afterwards, and when the others have done theirs, the results
/// are in place. On all threads of the calling one. Throws if memory of another rank can not be
/// reached.
void do_host_call(const HostCallOfAll& call);

}  // namespace tessera
