#pragma once

#include <memory>

#include "parallel/communicators/communicator.h"
#include "parallel/step_context.h"

namespace tessera {

/// The borders of a tensor region, in which each rank computes other columns of all rows. What
/// enters it and what leaves it are conjugate: each one's backward is the other's forward, and
/// either is one of two things. Which collectives these are depends on the rows that ranks hold
/// outside, all (Shoeybi et al., "Megatron-LM", 2019, functions f and g) or their share of them
/// (parallel/row_split.h; Korthikanti et al., 2022, functions g and ḡ).
///
///                                                      all rows      a share
///   enter forward, leave backward: AllRows of x        nothing       all-gather
///   leave forward, enter backward: RegionSum of y      all-reduce    reduce-scatter

/// The rows of all tensor ranks, which may still be on their way.
class AllRows {
 public:
  /// Starts to gather (..., N, C) from held (..., n, C) of the n rows that the rank holds. Takes
  /// room from ctx.arena, where they will be. Collective over `tp`.
  AllRows(const StepContext& ctx, const Tensor& held, Communicator& tp);

  /// Returns when they are there: `held` itself where each rank holds all.
  const Tensor& wait();

 private:
  Tensor rows_;
  std::unique_ptr<PendingCollective> gathering_;  // null where there is nothing to wait for
};

inline Tensor all_rows(const StepContext& ctx, const Tensor& held, Communicator& tp) {
  return AllRows(ctx, held, tp).wait();
}

/// The sum over the tensor ranks of what each has of all rows.
class RegionSum {
 public:
  /// Of the sum, `out` (..., n, C) gets the rows that the rank holds. Takes room from ctx.arena,
  /// which must last until the sum is there.
  RegionSum(const StepContext& ctx, Tensor out, Communicator& tp);

  /// Where this rank writes what it has, (..., N, C): `out` itself where each rank holds all rows.
  const Tensor& part() const { return part_; }

  /// part() is written. Other work may run until the result's wait(), when `out` is. Collective
  /// over `tp`.
  [[nodiscard]] std::unique_ptr<PendingCollective> start();

 private:
  Communicator& tp_;
  Tensor out_;
  Tensor part_;
  Tensor padded_;  // (parts × chunk, C): part_ and what makes the ranks' shares equal
  Tensor share_;   // (chunk, C): this rank's, in its place
};

/// x (M, C) whole on every rank, from the ranks that hold its rows: the rows `rows` (M) int32 of
/// all, in ctx.arena. `held` (n, C). Collective over `tp`.
Tensor chosen_rows(const StepContext& ctx, const Tensor& held, const Tensor& rows,
                   Communicator& tp);

/// The gradient of chosen_rows: dheld[row] += dx[m] for those of the rows that this rank holds. dx
/// (M, C) is whole on every rank.
void chosen_rows_backward(const StepContext& ctx, const Tensor& dx, const Tensor& rows,
                          Tensor dheld);

}  // namespace tessera
