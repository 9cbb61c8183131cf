#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "parallel/communicators/communicator.h"

namespace tessera {

/// One thread rank's call of a collective.
struct ThreadCall {
  enum class Kind : uint8_t {
    all_reduce,
    all_reduce_async,
    all_gather,
    all_gather_async,
    reduce_scatter,
    reduce_scatter_async,
    broadcast,
    barrier,
    split
  };

  Kind kind = Kind::barrier;
  Tensor input = {};
  Tensor output = {};  ///< equal to `input` if the collective is in place
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  int color = 0;
  int key = 0;
};

/// Whether the call returns before the result is in place.
bool is_async(ThreadCall::Kind kind);

/// "all_reduce(sum) of fp32 (3, 4)", for messages.
std::string describe(const ThreadCall& call);

/// Whether two ranks' calls are the same collective on tensors of the same shape.
bool agree(const ThreadCall& a, const ThreadCall& b);

/// Runs part `unit` of a collective's copying and reducing. The parts [0, calls.size()) touch
/// disjoint elements. `calls` has every rank's call, in rank order.
void run_unit(std::span<const ThreadCall> calls, int unit);

}  // namespace tessera
