#pragma once

#include <cstdint>
#include <span>

#include "core/dtype.h"
#include "core/range.h"
#include "parallel/communicators/communicator.h"

namespace tessera {

// The order of sums. All ranks of a group, on any number of hosts, add in the order of one binary
// tree over their numbers: the first 2^k of n ranks, for the largest 2^k below n, and the others
// are summed by themselves, and then these two sums are added. So 6 ranks sum as ((0 + 1) + (2 +
// 3)) + (4 + 5). A host can sum the ranks of a subtree before it sends them, and the result has the
// same bits for any placement of the ranks.

/// The first rank of the second of the two ranges that a range of at least two ranks is summed as.
int64_t sum_split(Range ranks);

/// The dtype in which values of `dtype` accumulate: fp32 for bf16, otherwise `dtype`.
DType accumulator_of(DType dtype);

/// A term of a reduction: the values of one rank, or those of a subtree, already reduced.
struct ReduceTerm {
  const void* data = nullptr;
  Range ranks = {};
  DType dtype = DType::f32;  ///< that of the reduction or its accumulator_of()
};

/// For i in [0, count), sets every outputs[k][i] to the reduction of the terms' element i, in the
/// order of the tree over all their ranks. `dtype` is that of the ranks' values, and `result` is
/// that of the outputs: `dtype` or its accumulator_of(). bf16 rounds once, when it is written. The
/// terms are in the order of ranks and without gaps. All arrays are in host memory. An output may
/// be a term of the same dtype; otherwise they must not overlap. Throws if a term is no subtree.
void reduce_terms(DType dtype, ReduceOp op, std::span<const ReduceTerm> terms, DType result,
                  std::span<void* const> outputs, int64_t count);

}  // namespace tessera
