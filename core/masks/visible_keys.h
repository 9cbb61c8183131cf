#pragma once

#include <cstdint>

#include "core/masks/attention_mask.h"

namespace tessera {

/// The number of keys that query `t` of a document of `length` rows sees, as far as the mask is
/// arithmetic: tensors hide none.
int64_t visible_keys(int64_t t, int64_t length, const AttentionMask& mask);

}  // namespace tessera
