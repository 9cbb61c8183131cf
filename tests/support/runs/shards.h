#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/parameters/shard_runs.h"

namespace tessera::test {

/// Returns the elements of a whole tensor in a parameter's shard.
template <typename T>
std::vector<T> shard_of(const std::vector<T>& whole, const Parameter& parameter) {
  std::vector<T> piece(static_cast<size_t>(parameter.real_shape().numel()));
  for_each_run(parameter.global_shape, parameter.shard,
               [&](int64_t global, int64_t local, int64_t count) {
                 std::copy_n(whole.begin() + global, count, piece.begin() + local);
               });
  return piece;
}

}  // namespace tessera::test
