#include "parallel/communicators/reduce.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

namespace tessera {
namespace {

// A piece of the sum that stays in the L1 cache while the inputs stream through.
constexpr int64_t kBlock = 1024;

// fp32 for bf16. Unsigned for integers, whose sums then wrap around without undefined behavior.
template <typename T, ReduceOp op>
auto accumulator() {
  if constexpr (std::is_same_v<T, bfloat16>) {
    return float{};
  } else if constexpr (std::is_integral_v<T> && op == ReduceOp::sum) {
    return std::make_unsigned_t<T>{};
  } else {
    return T{};
  }
}

template <ReduceOp op, typename Acc>
Acc combine(Acc a, Acc b) {
  if constexpr (op == ReduceOp::sum) {
    return static_cast<Acc>(a + b);
  } else if constexpr (std::is_floating_point_v<Acc>) {
    return a > b || std::isnan(a) ? a : b;  // propagates a NaN from either side
  } else {
    return std::max(a, b);
  }
}

template <typename T, ReduceOp op>
void reduce(std::span<const void* const> inputs, std::span<void* const> outputs, int64_t count) {
  using Acc = decltype(accumulator<T, op>());
  std::array<Acc, kBlock> sums;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const auto length = static_cast<size_t>(std::min(kBlock, count - begin));
    const T* first = static_cast<const T*>(inputs[0]) + begin;
    for (size_t i = 0; i < length; ++i) sums[i] = static_cast<Acc>(first[i]);
    for (const void* input : inputs.subspan(1)) {
      const T* next = static_cast<const T*>(input) + begin;
      for (size_t i = 0; i < length; ++i) {
        sums[i] = combine<op>(sums[i], static_cast<Acc>(next[i]));
      }
    }
    for (void* output : outputs) {
      T* result = static_cast<T*>(output) + begin;
      for (size_t i = 0; i < length; ++i) result[i] = static_cast<T>(sums[i]);
    }
  }
}

template <typename T>
void reduce(ReduceOp op, std::span<const void* const> inputs, std::span<void* const> outputs,
            int64_t count) {
  if (op == ReduceOp::sum) {
    reduce<T, ReduceOp::sum>(inputs, outputs, count);
  } else {
    reduce<T, ReduceOp::max>(inputs, outputs, count);
  }
}

}  // namespace

void reduce_elements(DType dtype, ReduceOp op, std::span<const void* const> inputs,
                     std::span<void* const> outputs, int64_t count) {
  switch (dtype) {
    case DType::f32:
      return reduce<float>(op, inputs, outputs, count);
    case DType::bf16:
      return reduce<bfloat16>(op, inputs, outputs, count);
    case DType::f64:
      return reduce<double>(op, inputs, outputs, count);
    case DType::i32:
      return reduce<int32_t>(op, inputs, outputs, count);
    case DType::i64:
      return reduce<int64_t>(op, inputs, outputs, count);
    case DType::u8:
      return reduce<uint8_t>(op, inputs, outputs, count);
  }
}

}  // namespace tessera
