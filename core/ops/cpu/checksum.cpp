#include "core/ops/checksum.h"

#include <atomic>

#include "core/ops/cpu/row_blocks.h"
#include "core/ops/device_ops.h"
#include "core/threads/parallel_for.h"

namespace tessera::cpu {
namespace {

template <typename T>
uint64_t sum_of_terms(const T* x, int64_t begin, int64_t end) {
  uint64_t sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = begin; i < end; ++i) sum += checksum_term(i, uint32_t{x[i]});
  return sum;
}

}  // namespace

void checksum(const Tensor& x, Tensor out) {
  std::atomic<uint64_t> sum = 0;
  const auto add = [&](const auto* bits) {
    parallel_for(x.numel(), grain_for(1), [&](int64_t begin, int64_t end) {
      sum.fetch_add(sum_of_terms(bits, begin, end), std::memory_order_relaxed);
    });
  };
  if (x.dtype() == DType::bf16) {
    add(static_cast<const uint16_t*>(x.raw()));
  } else if (x.dtype() == DType::u8) {
    add(static_cast<const uint8_t*>(x.raw()));
  } else {
    add(static_cast<const uint32_t*>(x.raw()));
  }
  out.data<int64_t>()[0] = static_cast<int64_t>(sum.load());
}

}  // namespace tessera::cpu
