#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/ops/cpu/vector_math.h"

#ifdef __AVX512BF16__
#include <immintrin.h>
#endif

namespace tessera::cpu {

/// The number of elements that a loop over memory processes at a time.
inline constexpr int64_t kBlock = 64;
/// Block size of a loop that sums: the sum of a block is one number, which costs instructions.
inline constexpr int64_t kSumBlock = 256;

/// Prefetches the cache lines of `count` elements, for reading or, if not const, for writing. The
/// elements need not exist.
template <int64_t kCount, typename T>
inline void fetch(T* elements) {
  constexpr int64_t kLine = 64 / sizeof(T);
  for (int64_t i = 0; i < kCount; i += kLine) {
    __builtin_prefetch(elements + i, std::is_const_v<T> ? 0 : 1);
  }
}

/// Calls body(first, count) for blocks that cover [0, n) in order; `count` is the constant kCount
/// except in the last one. Prefetches `streams` 2 KiB ahead: a loop that computes more than it
/// loads fills the processor's window long before the next cache line, and hardware prefetching is
/// unreliable, above all in virtual machines.
template <int64_t kCount = kBlock, typename Body, typename... T>
inline void for_each_block(int64_t n, Body&& body, T*... streams) {
  int64_t first = 0;
  for (; first + kCount <= n; first += kCount) {
    (fetch<kCount>(streams + first + 2048 / static_cast<int64_t>(sizeof(T))), ...);
    body(first, std::integral_constant<int64_t, kCount>());
  }
  if (first < n) body(first, n - first);
}

/// y[i] = value(i), rounded to T, for i in [0, n). `streams` are the arrays that `value` reads; y
/// may be one of them. Where the processor rounds to bf16, denormal numbers become zeros.
///
/// A function of its own into which everything is inlined: in a caller that has grown large, the
/// compiler stops inlining, and a call within the loop makes it ten times as slow.
template <typename T, typename Value, typename... Streams>
[[gnu::flatten, gnu::noinline]] void map_blocks(int64_t n, T* y, Value value,
                                                const Streams*... streams) {
  const auto block = [=](int64_t first, auto count) {
#ifdef __AVX512BF16__
    if constexpr (std::is_same_v<T, bfloat16>) {
      float wide[kBlock];
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) wide[i] = value(first + i);
      for (int64_t i = 0; i < count; i += 16) {
        const auto lanes = static_cast<__mmask16>((1u << std::min<int64_t>(count - i, 16)) - 1);
        const __m256bh rounded = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(lanes, wide + i));
        _mm256_mask_storeu_epi16(y + first + i, lanes, reinterpret_cast<__m256i>(rounded));
      }
      return;
    }
#endif
#pragma omp simd
    for (int64_t i = first; i < first + count; ++i) y[i] = from_float<T>(value(i));
  };
  for_each_block(n, block, streams..., y);
}

}  // namespace tessera::cpu
