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

/// One rank's call of a collective and its memory, as published to the other ranks of the host.
struct HostCall {
  /// Largest all-reduce, in bytes, whose input is copied into the call.
  static constexpr int64_t kSmall = 2048;

  Collective collective = Collective::barrier;
  DType dtype = DType::u8;
  ReduceOp op = ReduceOp::sum;
  int32_t root = 0;   ///< for a broadcast
  int64_t count = 0;  ///< elements: of an all-gather's input, a reduce-scatter's output, or all
  const std::byte* input = nullptr;
  std::byte* output = nullptr;  ///< equal to `input` if the collective is in place

  int64_t bytes() const { return count * static_cast<int64_t>(size_of(dtype)); }
  bool is_small() const { return collective == Collective::all_reduce && bytes() <= kSmall; }
};

/// "all_reduce (sum) of 1000 f32".
std::string describe(const HostCall& call);

/// Whether two ranks' calls are the same collective.
bool same_collective(const HostCall& a, const HostCall& b);

/// A call as seen by rank `rank` of a group.
struct HostCallOfAll {
  int rank;
  std::span<const HostCall> calls;  ///< by rank, with that rank's addresses
  std::span<const pid_t> processes;
  std::span<const std::byte* const> small;  ///< by rank, the inputs of a small call
};

/// Does this rank's part of a call, on all threads of the calling thread's team. Results are in
/// place when all ranks have done their parts. Throws if another rank's memory cannot be reached.
void do_host_call(const HostCallOfAll& call);

}  // namespace tessera
