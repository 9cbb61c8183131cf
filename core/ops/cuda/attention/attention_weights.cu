#include "core/ops/cuda/attention/attention_tiles.h"
#include "core/ops/device_ops.h"

namespace tessera::cuda {
namespace {

template <typename E, AttentionForm kForm>
struct WeightsShared {
  TileMask<Rows::queries, E::kRows, E::kColumns, HeadMask<kForm>::kHasPattern> mask;
  TileBits<E::kRows, E::kColumns> bits;
  alignas(16) typename E::Stored queries[E::kRows * E::kStride];
  alignas(16) typename E::Stored keys[E::kColumns * E::kStride];
};

/// The weights of one tile of queries of one head, and zeros for the keys that none of them sees.
template <typename E, AttentionForm kForm>
__global__ void __launch_bounds__(kAttentionThreads)
    weights_kernel(AttentionArguments a, const typename E::Element* q,
                   const typename E::Element* kv, const float* log_sum_exp, float* weights) {
  auto& shared = *dynamic_shared<WeightsShared<E, kForm>>();
  using Place = BlockPlace<kForm>;
  kv = Place::kv_of(a, q, kv);
  const Place place(a, E::kRows, false);
  const HeadMask<kForm> mask(a, place.b, place.h);
  const int first = place.first_row;
  AsyncCopies copies;
  load_tile<E, E::kRows>(a, q + place.of_query(a, first), a.q_stride, first, a.seq, shared.queries,
                         copies);
  shared.mask.begin(mask, first);
  for (int key = 0; key < Place::keys(a); key += E::kColumns) {
    __syncthreads();  // all threads are done with the tile before
    shared.mask.look(mask, first, key, shared.bits);
    load_tile<E, E::kColumns>(a, kv + place.of_key(a, key), Place::kv_stride(a), key,
                              Place::keys(a), shared.keys, copies);
    copies.wait();
    __syncthreads();
    typename E::Scores scores;
    E::multiply(shared.queries, shared.keys, scores);
    mask_scores<E>(mask, shared.mask, shared.bits, /*whole=*/false, a.scale, first, key, scores);
#pragma unroll
    for (int i = 0; i < E::kMyRows; ++i) {
      const int t = first + E::row(i);
      if (t >= a.seq) continue;
      const int64_t at = place.in_log_sum_exp(a, t);
      // A fully masked row has only scores of −inf.
      const float reference = log_sum_exp[at] == kMinusInfinity ? 0.0f : log_sum_exp[at] * kLog2E;
#pragma unroll
      for (int j = 0; j < E::kMyColumns; ++j) {
        const int s = key + E::lane_column() + E::column(j);
        if (s < Place::keys(a)) {
          weights[at * Place::keys(a) + s] = fast_exp2(scores.at[i][j] - reference);
        }
      }
    }
  }
}

}  // namespace

void attention_weights(const Tensor& qkv, const Tensor& log_sum_exp,
                       const AttentionOptions& options, Tensor weights) {
  const AttentionArguments a =
      attention_arguments(qkv, options, {&qkv, &options.memory.key_values});
  dispatch_float(qkv.dtype(), [&]<typename T>() {
    const AttentionRows<const T> from(a, qkv, options.memory.key_values);
    dispatch_warp_tiles<T, false>(a.d, [&]<typename E>() {
      dispatch_form(a, [&]<AttentionForm kForm>() {
        launch("attention_weights",
               attention_launch<E>(a, a.seq, a.heads, sizeof(WeightsShared<E, kForm>)),
               weights_kernel<E, kForm>, a, from.q, from.kv, log_sum_exp.data<float>(),
               weights.data<float>());
      });
    });
  });
}

}  // namespace tessera::cuda
