// A kernel for each device function that contains inline PTX. ptx_test.cpp compares nvcc's PTX of
// them with their C++ for the emulated GPU.

#include "core/cuda/async_copies.h"
#include "core/cuda/device_code.h"
#include "core/cuda/dynamic_shared.h"
#include "core/cuda/mma.h"
#include "core/cuda/packs.h"
#include "core/ops/cuda/attention/attention_tiles.h"

namespace tessera::cuda {

extern "C" __global__ void from_float_probe(const float* x, bfloat16* out) {
  const int64_t i = global_thread();
  out[i] = from_float<bfloat16>(x[i]);
}

extern "C" __global__ void pack_bf16_probe(const float* low, const float* high, uint32_t* out) {
  const int64_t i = global_thread();
  out[i] = pack_bf16(low[i], high[i]);
}

/// Rounds 4 elements per thread.
extern "C" __global__ void round_to_probe(const float* x, bfloat16* out) {
  const int64_t i = 4 * global_thread();
  store_floats(load_floats<4>(x + i), out + i);
}

extern "C" __global__ void fast_exp2_probe(const float* x, float* out) {
  const int64_t i = global_thread();
  out[i] = fast_exp2(x[i]);
}

/// Register i of a lane is at lane + 32 i.
extern "C" __global__ void mma_probe(const uint32_t* a, const uint32_t* b, float* c) {
  const int64_t lane = global_thread();
  const uint32_t registers[4] = {a[lane], a[lane + 32], a[lane + 64], a[lane + 96]};
  mma_m16n8k16(c[lane], c[lane + 32], c[lane + 64], c[lane + 96], registers, b[lane], b[lane + 32]);
}

/// Copies 32 rows of 16 bytes to shared memory. A lane passes the address of row row_of_lane[lane].
template <bool kTransposed>
__device__ void load_rows(const uint4* rows, const int* row_of_lane, uint32_t* out) {
  const int64_t lane = global_thread();
  auto* shared = dynamic_shared<uint4>();
  shared[lane] = rows[lane];
  __syncthreads();
  uint32_t registers[4];
  load_matrices<kTransposed>(registers,
                             reinterpret_cast<const bfloat16*>(shared + row_of_lane[lane]));
  for (int i = 0; i < 4; ++i) out[lane + 32 * i] = registers[i];
}
extern "C" __global__ void load_matrices_probe(const uint4* rows, const int* row_of_lane,
                                               uint32_t* out) {
  load_rows<false>(rows, row_of_lane, out);
}
extern "C" __global__ void load_transposed_matrices_probe(const uint4* rows, const int* row_of_lane,
                                                          uint32_t* out) {
  load_rows<true>(rows, row_of_lane, out);
}

/// Each lane copies a row to shared memory, or zeros, and returns its neighbor's.
extern "C" __global__ void async_copies_probe(const uint4* rows, const int* valid, uint4* out) {
  const int64_t lane = global_thread();
  auto* shared = dynamic_shared<uint4>();
  AsyncCopies copies;
  copies.start(shared + lane, rows + lane, valid[lane] != 0);
  copies.wait();
  __syncthreads();
  out[lane] = shared[(lane + 1) % 32];
}

}  // namespace tessera::cuda
