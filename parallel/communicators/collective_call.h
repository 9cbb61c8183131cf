#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string>
#include <type_traits>

#include "core/tensor.h"
#include "parallel/communicators/communicator.h"
#include "parallel/communicators/traffic.h"

namespace tessera {

/// One rank's call of a collective, or its end of a message, as the other ranks of its host see it.
/// It may lie in shared memory; the tensors then have the caller's addresses.
struct CollectiveCall {
  Collective collective = Collective::barrier;
  Tensor input = {};
  Tensor output = {};  ///< equal to `input` if the collective is in place
  ReduceOp op = ReduceOp::sum;
  Wait wait = Wait::at_once;
  int root = 0;   ///< for a broadcast; the sender of a message
  int color = 0;  ///< for a split
  int key = 0;    ///< for a split; the receiver of a message

  size_t bytes() const { return input.bytes() + output.bytes(); }
};
static_assert(std::is_trivially_copyable_v<CollectiveCall>);

/// "all_reduce(sum) of fp32 (3, 4)", for messages.
std::string describe(const CollectiveCall& call);

/// Whether two ranks' calls are the same collective on tensors of the same dtype and shape.
bool agree(const CollectiveCall& a, const CollectiveCall& b);

/// Whether a message sent as `sent` can be received as `expected`.
bool match(const Tensor& sent, const Tensor& expected);

/// "rank 0 sends fp32 (3) to rank 1, which expects fp32 (5)", and what to do.
std::string mismatch(int sender, const Tensor& sent, int receiver, const Tensor& expected);

/// Does part `part` of a collective on all threads of the calling thread's team: copies to rank
/// `part`, or a slice of an all-reduce. `calls` has every rank's call, in rank order. The parts [0,
/// calls.size()) touch disjoint elements, and the result is in place when all are done. Sums run in
/// the order of parallel/communicators/reduce.h.
///
/// If `processes` is empty, all ranks are threads of this process, and any thread may do a part.
/// Otherwise rank `part` must do it, and `processes` are the ranks' processes, whose memory is
/// copied (parallel/communicators/host/peer_memory.h). Throws if it cannot be reached.
void run_part(std::span<const CollectiveCall> calls, std::span<const pid_t> processes, int part);

}  // namespace tessera
