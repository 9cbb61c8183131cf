#pragma once

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "core/checked.h"

namespace tessera {

/// Calls `body(begin, end)` on disjoint pieces that cover [0, n), on this rank's threads, with at
/// least `grain` items in every piece but the last. `body` must not throw. The pieces depend on the
/// number of threads, so results must not depend on them.
template <typename Body>
void parallel_for(int64_t n, int64_t grain, Body&& body) {
  const int64_t pieces =
      std::min<int64_t>(omp_get_max_threads(), ceil_div(n, std::max<int64_t>(grain, 1)));
  if (pieces <= 1) {
    if (n > 0) body(int64_t{0}, n);
    return;
  }
  const int64_t piece = round_up(ceil_div(n, pieces), std::max<int64_t>(grain, 1));
#pragma omp parallel num_threads(static_cast <int>(pieces))
  {
    // OpenMP may start fewer threads than requested (OMP_THREAD_LIMIT, OMP_DYNAMIC, nesting).
    for (int64_t i = omp_get_thread_num(); i * piece < n; i += omp_get_num_threads()) {
      body(i * piece, std::min(n, (i + 1) * piece));
    }
  }
}

/// Calls `body(i)` for each i in [0, n), on whichever thread is free: for items of different cost.
/// `body` must not throw and must not depend on its thread.
template <typename Body>
void parallel_for_each(int64_t n, Body&& body) {
  std::atomic<int64_t> next{0};
  parallel_for(std::min<int64_t>(n, omp_get_max_threads()), 1, [&](int64_t, int64_t) {
    for (int64_t i = next.fetch_add(1); i < n; i = next.fetch_add(1)) body(i);
  });
}

}  // namespace tessera
