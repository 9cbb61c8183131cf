#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "core/cuda/device_code.h"
#include "core/cuda/launch.h"
#include "core/cuda/packs.h"
#include "core/tensor.h"

/// Helpers of kernels that process rows of a matrix, with accesses of 16 bytes where possible.
namespace tessera::cuda {

/// Blocks of about 256 threads for `rows` rows of `items` items each: x is the position in a row, y
/// the row.
inline LaunchShape rows_shape(int64_t rows, int64_t items) {
  constexpr int64_t kThreads = 256;
  const int64_t x = std::clamp<int64_t>(round_up(items, kWarpSize), kWarpSize, kThreads);
  const int64_t y = kThreads / x;
  return {dim3(static_cast<unsigned>(ceil_div(rows, y))),
          dim3(static_cast<unsigned>(x), static_cast<unsigned>(y))};
}

/// The row of this thread in a launch of rows_shape(); it may be out of range.
__device__ inline int64_t row_of_thread() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
}

/// One block per row of `items` items, with as many warps as have work.
inline LaunchShape block_per_row(int64_t rows, int64_t items, int64_t most_threads = 512) {
  const int64_t threads = std::clamp<int64_t>(round_up(items, kWarpSize), kWarpSize, most_threads);
  return {dim3(static_cast<unsigned>(rows)), dim3(static_cast<unsigned>(threads))};
}

/// One block that sums `items` numbers in a loop; no block if there are none.
inline LaunchShape one_block(int64_t items) {
  return block_per_row(items > 0 ? 1 : 0, items, 1024);
}

/// The largest power of two, up to 16, that divides the addresses of all tensors and `bytes`.
inline int64_t common_alignment(int64_t bytes, std::initializer_list<const Tensor*> tensors) {
  auto bits = static_cast<uintptr_t>(bytes) | 16u;
  for (const Tensor* tensor : tensors) bits |= reinterpret_cast<uintptr_t>(tensor->raw());
  return static_cast<int64_t>(bits & (~bits + 1));
}

/// Calls `body.template operator()<N>()` with the number of elements N that a thread processes at a
/// time: a pack of T if the rows of `columns` elements of all `tensors` consist of aligned packs,
/// otherwise 1.
template <typename T, typename Body>
void dispatch_pack(int64_t columns, std::initializer_list<const Tensor*> tensors, Body&& body) {
  if (columns % kPackSize<T> == 0 && common_alignment(0, tensors) == 16) {
    return body.template operator()<kPackSize<T>>();
  }
  body.template operator()<1>();
}

/// Calls `body.template operator()<Unit>()` with the widest type that can copy rows of `bytes`
/// bytes of all `tensors`. Elements have at least two bytes.
template <typename Body>
void dispatch_unit(int64_t bytes, std::initializer_list<const Tensor*> tensors, Body&& body) {
  const int64_t alignment = common_alignment(bytes, tensors);
  if (alignment == 16) return body.template operator()<uint4>();
  if (alignment >= 4) return body.template operator()<uint32_t>();
  body.template operator()<uint16_t>();
}

}  // namespace tessera::cuda
