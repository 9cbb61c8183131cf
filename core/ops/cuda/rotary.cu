#include "core/cuda/launch.h"
#include "core/cuda/packs.h"
#include "core/ops/device_ops.h"
#include "core/ops/rotary.h"

namespace tessera::cuda {
namespace {

// Angles in double: at late positions fp32 has lost their last digits. Runs once per step.
__global__ void table_kernel(const int32_t* positions, RotaryFormula formula, int64_t n,
                             int64_t half, float* table) {
  for (int64_t at = global_thread(); at < n * half; at += global_threads()) {
    const int64_t row = at / half, i = at % half;
    const double frequency = formula.scaled(exp(formula.log_frequency(i, half)), i);
    double sine, cosine;
    sincos(positions[row] * frequency, &sine, &cosine);
    table[row * 2 * half + i] = static_cast<float>(formula.amplitude * cosine);
    table[row * 2 * half + half + i] = static_cast<float>(formula.amplitude * sine);
  }
}

// A thread rotates N pairs of a head. The heads of a token read the same angles from the cache.
template <int N, typename T>
__global__ void rotary_kernel(const float* table, float direction, int64_t tokens, int64_t heads,
                              int64_t all_heads, int64_t half, T* in) {
  const int64_t head_packs = half / N, token_packs = heads * head_packs;
  for (int64_t at = global_thread(); at < tokens * token_packs; at += global_threads()) {
    const int64_t token = at / token_packs, rest = at % token_packs;
    const int64_t head = rest / head_packs, i = rest % head_packs * N;
    const float* angles = table + token * 2 * half + i;
    const Floats<N> cosines = load_floats<N>(angles), sines = load_floats<N>(angles + half);
    T* x = in + (token * all_heads + head) * 2 * half + i;
    Floats<N> a = load_floats<N>(x), b = load_floats<N>(x + half);
    for (int j = 0; j < N; ++j) {
      const float cosine = cosines.at[j], sine = direction * sines.at[j];
      // No contraction into fma: the bits must not depend on N.
      const float turned = fmaf(a.at[j], cosine, -(b.at[j] * sine));
      b.at[j] = fmaf(b.at[j], cosine, a.at[j] * sine);
      a.at[j] = turned;
    }
    store_floats(a, x);
    store_floats(b, x + half);
  }
}

}  // namespace

void rotary_table(const Tensor& positions, const RotaryFormula& formula, Tensor table) {
  const int64_t n = positions.numel(), half = table.dim(1) / 2;
  launch("rotary_table", one_dimensional(n * half, kBlockThreads), table_kernel,
         positions.data<int32_t>(), formula, n, half, table.data<float>());
}

void rotary(const Tensor& table, float direction, int64_t heads, Tensor in) {
  const int64_t tokens = table.dim(0), all_heads = in.dim(2), half = in.dim(3) / 2;
  dispatch_float(in.dtype(), [&]<typename T>() {
    T* x = in.data<T>();
    const auto run = [&]<int N>() {
      launch("rotary", one_dimensional(tokens * heads * (half / N), kBlockThreads),
             rotary_kernel<N, T>, table.data<float>(), direction, tokens, heads, all_heads, half,
             x);
    };
    constexpr int kPack = kPackSize<T>;
    if (half % kPack == 0 && takes_packs<kPack>(x)) {
      run.template operator()<kPack>();
    } else {
      run.template operator()<1>();
    }
  });
}

}  // namespace tessera::cuda
