#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "parallel/communicators/communicator.h"

namespace tessera {

/// What one thread rank asks of a collective.
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
  Tensor output = {};  ///< the same as `input` where a collective works in place
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  int color = 0;
  int key = 0;
};

/// Whether the rank goes on before the result is in place.
bool is_async(ThreadCall::Kind kind);

/// "all_reduce(sum) of fp32 (3, 4)", for messages.
std::string describe(const ThreadCall& call);

/// Whether two ranks that call these call the same collective on tensors of the same shape.
bool agree(const ThreadCall& a, const ThreadCall& b);

/// Does part `unit` of a collective's copying and reducing; the parts [0, calls.size()) touch
/// disjoint elements. `calls` holds every rank's call, in the order of ranks.
void run_unit(std::span<const ThreadCall> calls, int unit);

}  // namespace tessera
