#pragma once

#include "core/cuda/async_copies.h"
#include "core/ops/cuda/attention/attention_tile_mask.h"

namespace tessera::cuda {

/// Loops over the tiles of columns that any of a block's rows may see, in order. E is a kind of
/// tiles; Columns, in shared memory, holds what a kernel needs of the columns of one tile, and its
/// `bits`. With two Columns the next tile is loaded, and its dropout drawn, while the current one
/// is processed.
///
/// `load(first, columns)` starts `copies` of the columns from `first` on. `work(first, columns,
/// whole)` computes with them, and is called by the warps whose rows may see one of them, or by all
/// if E::kWholeBlock; `whole` means that the warp's rows see all columns, and then bits.visible may
/// not have been written. `ready()` is called before and, with two Columns, when the `copies` that
/// were started before are complete. Tiles that the mask's tensors hide entirely are skipped, and
/// those between global tokens and a window are not loaded. All threads of the block must call it;
/// all `copies` are complete when work() is called.
template <typename E, typename Mask, Rows kOrder, typename Columns, int kStages, typename Load,
          typename Ready, typename Work>
__device__ void for_each_tile(const Mask& mask,
                              TileMask<kOrder, E::kRows, E::kColumns, Mask::kHasPattern>& rows,
                              int first_row, Columns (&stages)[kStages], AsyncCopies& copies,
                              const Load& load, const Ready& ready, const Work& work) {
  static_assert(kStages == 1 || kStages == 2);
  constexpr int kStep = E::kColumns;
  const auto seen = rows.begin(mask, first_row);
  const int end = seen.any.end;
  const auto by_warp = rows.of_warp(seen, E::kMyRows, [](int i) { return E::row(i); });
  const auto is_whole = [&](int column) {
    return !mask.looks_at_tensors() && seen.whole(column, column + kStep);
  };
  const auto compute = [&](int column, const Columns& columns) {
    if (!E::kWholeBlock && !by_warp.overlaps(column, column + kStep)) return;
    work(column, columns, !mask.looks_at_tensors() && by_warp.whole(column, column + kStep));
  };
  const auto look = [&](int column, Columns& columns) {
    if (!is_whole(column)) rows.look(mask, first_row, column, columns.bits);
  };
  // The first tile from `column` on that a row may see.
  const auto next_seen = [&](int column) {
    if constexpr (Mask::kHasPattern) {
      while (column < end && !seen.overlaps(column, column + kStep)) column += kStep;
    }
    return column;
  };
  const int begin = next_seen(seen.any.begin / kStep * kStep);
  const auto bring = [&](int column, Columns& columns) {
    load(column, columns);
    if (mask.drops()) rows.draw(mask, first_row, column, columns.bits);
  };

  // Makes copies, and what else the threads wrote, visible to all of them.
  const auto publish = [&] {
    copies.wait();
    E::publish();
    __syncthreads();
  };

  if constexpr (kStages == 1) {
    ready();
    for (int column = begin; column < end; column = next_seen(column + kStep)) {
      __syncthreads();  // all threads are done with the tile before
      look(column, stages[0]);
      if (mask.looks_at_tensors()) {
        __syncthreads();
        if (!stages[0].bits.any_visible()) continue;
      }
      bring(column, stages[0]);
      publish();
      compute(column, stages[0]);
    }
  } else {
    if (begin < end) {
      bring(begin, stages[0]);
      look(begin, stages[0]);
    }
    // Rows that stay in registers are there before the first tile is needed.
    if constexpr (E::kWholeBlock) publish();
    ready();
    for (int column = begin, next = begin, stage = 0; column < end;
         column = next, stage = 1 - stage) {
      if constexpr (!E::kWholeBlock) publish();  // all threads are done with the tile before, too
      next = next_seen(column + kStep);
      if (next < end) {
        bring(next, stages[1 - stage]);
        look(next, stages[1 - stage]);
      }
      if (!mask.looks_at_tensors() || stages[stage].bits.any_visible()) {
        compute(column, stages[stage]);
      }
      if constexpr (E::kWholeBlock) publish();
    }
  }
}

}  // namespace tessera::cuda
