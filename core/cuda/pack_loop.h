#pragma once

#include <cstdint>
#include <type_traits>

#include "core/cuda/device_code.h"

namespace tessera::cuda {

/// Shares n elements among all threads of the grid: calls body(N, first) for each pack of N of
/// them, and body(1, first) for each that is left over. The size is an integral_constant.
template <int N, typename Body>
__device__ void for_each_pack(int64_t n, const Body& body) {
  const int64_t packs = n / N;
  for (int64_t i = global_thread(); i < packs; i += global_threads()) {
    body(std::integral_constant<int, N>(), i * N);
  }
  for (int64_t i = packs * N + global_thread(); i < n; i += global_threads()) {
    body(std::integral_constant<int, 1>(), i);
  }
}

}  // namespace tessera::cuda
