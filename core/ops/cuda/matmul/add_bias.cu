#include "core/cuda/launch.h"
#include "core/cuda/packs.h"
#include "core/cuda/rows.h"
#include "core/ops/cuda/matmul/matmul.h"

namespace tessera::cuda {
namespace {

template <int N, typename B, typename Y>
__global__ void add_bias_kernel(const B* bias, int64_t rows, int64_t columns, bool adds, Y* y) {
  const int64_t row = row_of_thread();
  if (row >= rows) return;
  y += row * columns;
  for (int64_t c = threadIdx.x * N; c < columns; c += blockDim.x * N) {
    Floats<N> sum = load_floats<N>(bias + c), before{};
    if (adds) before = load_floats<N>(y + c);
    for (int i = 0; i < N; ++i) sum.at[i] += before.at[i];
    store_floats(sum, y + c);
  }
}

}  // namespace

void add_bias(const Tensor& bias, Tensor y, Accumulate accumulate) {
  if (y.numel() == 0) return;
  const int64_t columns = bias.numel(), rows = y.numel() / columns;
  dispatch_float(bias.dtype(), [&]<typename B>() {
    dispatch_float(y.dtype(), [&]<typename Y>() {
      const auto run = [&]<int N>() {
        launch("add_bias", rows_shape(rows, columns / N), add_bias_kernel<N, B, Y>, bias.data<B>(),
               rows, columns, accumulate == Accumulate::yes, y.data<Y>());
      };
      constexpr int kPack = 4;  // elements of fp32, the wider of the possible dtypes
      if (columns % kPack == 0 && common_alignment(0, {&bias, &y}) == 16) {
        run.template operator()<kPack>();
      } else {
        run.template operator()<1>();
      }
    });
  });
}

}  // namespace tessera::cuda
