#pragma once

#include <cstdint>

#include "core/range.h"

namespace tessera::cuda {

/// The sort key of an id: its row (id − local_rows.begin, or kNoRow if another rank has it) above
/// its index n among the ids. Keys are distinct, so the order is unique.
using SortKey = uint64_t;
inline constexpr uint32_t kNoRow = 0xffffffffu;

/// Enqueues a sort of `count` ids: by row, within a row by n; ids without a row come last.
/// `scratch` has room for 2 × count keys and contains the result. The time does not depend on how
/// often ids repeat.
const SortKey* sort_ids(const int32_t* ids, int64_t count, Range local_rows, SortKey* scratch);

}  // namespace tessera::cuda
