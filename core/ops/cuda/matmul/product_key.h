#pragma once

#include <bit>
#include <cstdint>

#include "core/checked.h"
#include "core/dtype.h"
#include "core/ops/matrix.h"

namespace tessera::cuda {

/// The function that a product applies to its sums before it writes them.
enum class Epilogue : uint8_t {
  none,
  bias,           ///< + bias
  gelu,           ///< sums to the second output, gelu(sums) to the first
  bias_gelu,      ///< both
  gelu_backward,  ///< × gelu'(second input)
  row_sums,       ///< also writes the sums of the first operand's rows
};

/// Whether the epilogue reads one number per column of the result, or writes one per row.
inline bool has_vector(Epilogue epilogue) {
  return epilogue == Epilogue::bias || epilogue == Epilogue::bias_gelu ||
         epilogue == Epilogue::row_sums;
}
inline bool has_second_matrix(Epilogue epilogue) {
  return epilogue == Epilogue::gelu || epilogue == Epilogue::bias_gelu ||
         epilogue == Epilogue::gelu_backward;
}

/// Everything that determines a product's algorithm, so that bits depend neither on earlier
/// products nor on addresses.
struct ProductKey {
  int64_t m, n, k;  ///< (M, K) × (K, N)
  MatrixLayout a_layout, b_layout;
  DType in, out;  ///< of codes (linear_fp8): u8, with scales of rows for a, of blocks for b
  Epilogue epilogue;
  bool accumulate;
  uint8_t alignment;            ///< of every pointer (alignment_of())
  bool tf32 = false;            ///< whether fp32 operands are truncated to TF32
  int32_t multiprocessors = 0;  ///< that it should use; 0: all

  bool operator==(const ProductKey&) const = default;
};

struct ProductKeyHash {
  size_t operator()(const ProductKey& key) const {
    const auto mix = [](size_t hash, int64_t value) {
      return (hash ^ static_cast<size_t>(value)) * 0x9e3779b97f4a7c15u + (hash >> 29);
    };
    const int64_t kinds =
        static_cast<int64_t>(key.a_layout) | static_cast<int64_t>(key.b_layout) << 1 |
        static_cast<int64_t>(key.in) << 2 | static_cast<int64_t>(key.out) << 6 |
        static_cast<int64_t>(key.epilogue) << 10 | static_cast<int64_t>(key.accumulate) << 14 |
        static_cast<int64_t>(key.alignment) << 15 | static_cast<int64_t>(key.tf32) << 20 |
        static_cast<int64_t>(key.multiprocessors) << 21;
    return mix(mix(mix(mix(0, key.m), key.n), key.k), kinds);
  }
};

/// The alignment of an address in bytes, at most 16, the widest access of a product.
inline uint8_t alignment_of(const void* data) {
  constexpr uintptr_t kWidestAccess = 16;
  const uintptr_t address = reinterpret_cast<uintptr_t>(data) | kWidestAccess;
  return static_cast<uint8_t>(address & (~address + 1));
}

/// `rows`, rounded up by at most a sixteenth so that there are few distinct results: those up to
/// 64, and sixteen per doubling above. Multiples of 1024 up to 32768 are unchanged.
inline int64_t rounded_rows(int64_t rows) {
  constexpr int64_t kFewRows = 64;
  if (rows <= kFewRows) return rows;
  const auto below = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(rows - 1)));
  return round_up(rows, below / 16);
}

/// The key that selects the algorithm. Batches without padding have a different number of rows in
/// every step, and algorithms run with any number: rows are never a contiguous extent, so no
/// alignment depends on them.
inline ProductKey algorithm_key(ProductKey sizes) {
  const bool sums_over_rows = sizes.a_layout == MatrixLayout::columns;  // a weight gradient
  int64_t& rows = sums_over_rows ? sizes.k : sizes.m;
  rows = rounded_rows(rows);
  return sizes;
}

}  // namespace tessera::cuda
