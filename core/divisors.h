#pragma once

#include <cstdint>
#include <string>

namespace tessera {

/// "(1, 2, 4, 8, 16)", truncated if the list is long.
std::string divisors(int64_t number);

/// "6 or 12": the positive multiples of `step` next to `number`, which is not a multiple.
std::string nearest_multiples(int64_t number, int64_t step);

}  // namespace tessera
