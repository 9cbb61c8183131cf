#pragma once

#include <cstdint>

#include "core/range.h"

namespace tessera::cuda {

/// Where an id stands: its row (id − held.begin, or kNoRow where another rank holds it) above its
/// index n among the ids. No two are equal, so that there is one order of them.
using SortKey = uint64_t;
inline constexpr uint32_t kNoRow = 0xffffffffu;

/// Enqueues the sorting of `count` ids: by row, those of one row in the order of n, those without a
/// row last. `scratch` has room for 2 × count keys; the result lies in it. The time does not depend
/// on how often ids repeat.
const SortKey* sort_ids(const int32_t* ids, int64_t count, Range held, SortKey* scratch);

}  // namespace tessera::cuda
