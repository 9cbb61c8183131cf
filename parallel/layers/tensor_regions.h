#pragma once

#include <memory>

#include "parallel/communicators/communicator.h"
#include "parallel/step_context.h"

namespace tessera {

/// The boundaries of a tensor region, in which each rank computes its share of the columns of all
/// rows. Entering and leaving are conjugate: the backward of one is the forward of the other. The
/// collectives depend on the rows that a rank has outside the region: all of them (Shoeybi et al.,
/// "Megatron-LM", 2019, functions f and g), or its local rows with sequence parallelism
/// (parallel/sequence_shard.h; Korthikanti et al., 2022, functions g and ḡ).
///
///                                                      all rows      local rows
///   enter forward, leave backward: AllRows of x        nothing       all-gather
///   leave forward, enter backward: RegionSum of y      all-reduce    reduce-scatter

/// The rows of all tensor ranks, gathered asynchronously.
class AllRows {
 public:
  /// Starts gathering (..., N, C) from the local rows `local` (..., n, C). Allocates the output in
  /// ctx.arena. Collective over `tp`.
  AllRows(const StepContext& ctx, const Tensor& local, Communicator& tp);

  /// Waits for the rows and returns them. Returns `local` itself if every rank has all rows.
  const Tensor& wait();

 private:
  Tensor rows_;
  std::unique_ptr<PendingCollective> gathering_;  // null if nothing is pending
};

inline Tensor all_rows(const StepContext& ctx, const Tensor& local, Communicator& tp) {
  return AllRows(ctx, local, tp).wait();
}

/// The sum over the tensor ranks of each rank's partial result for all rows.
class RegionSum {
 public:
  /// `out` (..., n, C) receives the local rows of the sum. Allocates scratch memory in ctx.arena,
  /// which must stay valid until the sum is complete.
  RegionSum(const StepContext& ctx, Tensor out, Communicator& tp);

  /// The tensor for this rank's partial result, (..., N, C). It is `out` itself if every rank has
  /// all rows.
  const Tensor& part() const { return part_; }

  /// Starts the sum; part() must be written. Other work may run until wait() on the result, after
  /// which `out` is written. Collective over `tp`.
  [[nodiscard]] std::unique_ptr<PendingCollective> start();

 private:
  Communicator& tp_;
  Tensor out_;
  Tensor part_;
  Tensor padded_;  // (parts × chunk, C): part_, padded to equal shares
  Tensor share_;   // (chunk, C): this rank's share, in place
};

/// Gathers selected rows: returns x (M, C), the same on every rank, in ctx.arena. `local` (n, C) is
/// this rank's local rows; `rows` (M) int32 are indices into all rows. Collective over `tp`.
Tensor chosen_rows(const StepContext& ctx, const Tensor& local, const Tensor& rows,
                   Communicator& tp);

/// Backward of chosen_rows: dlocal[row] += dx[m] for each selected row that is local. dx (M, C) is
/// the same on every rank.
void chosen_rows_backward(const StepContext& ctx, const Tensor& dx, const Tensor& rows,
                          Tensor dlocal);

}  // namespace tessera
