#include "tests/bench/filled.h"

#include "core/ops/elementwise.h"
#include "core/random.h"
#include "core/threads/parallel_for.h"

namespace tessera::bench {

OwnedTensor filled(const Shape& shape, DType dtype) {
  const OwnedTensor numbers(shape, DType::f32);
  float* out = numbers.tensor.data<float>();
  const RandomKey key{1, RandomPurpose::init, 0, 0};
  parallel_for(shape.numel(), 4096, [&](int64_t begin, int64_t end) {
    random_normal(key, 0.02f, static_cast<uint64_t>(begin), end - begin, out + begin);
  });
  OwnedTensor result(shape, dtype);
  copy(numbers.tensor, result.tensor);
  return result;
}

}  // namespace tessera::bench
