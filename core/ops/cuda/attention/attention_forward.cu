#include "core/ops/cuda/attention/attention_columns.h"
#include "core/ops/cuda/attention/attention_tiles.h"
#include "core/ops/device_ops.h"

namespace tessera::cuda {
namespace {

template <typename E, AttentionForm kForm>
struct ForwardShared {
  TileMask<Rows::queries, E::kRows, E::kColumns, HeadMask<kForm>::kHasPattern> mask;
  alignas(E::kAlignment) typename E::Stored queries[E::kRows * E::kRowSize];
  KeyColumns<E> columns[E::kStages];
  typename E::Exchange exchange;
};

/// The running softmax of a thread's rows, in powers of two. `sum` covers the thread's own columns.
template <typename E>
struct RunningSoftmax {
  float max[E::kMyRows], sum[E::kMyRows];

  __device__ RunningSoftmax() {
    for (int i = 0; i < E::kMyRows; ++i) {
      max[i] = kMinusInfinity;
      sum[i] = 0.0f;
    }
  }

  /// Turns scores into weights relative to the new maximum, and rescales `sums` to it.
  __device__ void absorb(typename E::Scores& scores, typename E::Sums& sums) {
#pragma unroll
    for (int i = 0; i < E::kMyRows; ++i) {
      float row_max = scores.at[i][0];
#pragma unroll
      for (int j = 1; j < E::kMyColumns; ++j) row_max = fmaxf(row_max, scores.at[i][j]);
      row_max = fmaxf(max[i], max_of_row<E>(row_max));
      // If every key so far is hidden, any finite reference makes all weights 2^−inf = 0.
      const float reference = row_max == kMinusInfinity ? 0.0f : row_max;
      const float shrink = fast_exp2(max[i] - reference);
      float row_sum = 0.0f;
#pragma unroll
      for (int j = 0; j < E::kMyColumns; ++j) {
        scores.at[i][j] = fast_exp2(scores.at[i][j] - reference);
        row_sum += scores.at[i][j];
      }
      max[i] = row_max;
      sum[i] = fmaf(sum[i], shrink, row_sum);
#pragma unroll
      for (int j = 0; j < E::kMySums; ++j) sums.at[i][j] *= shrink;
    }
  }
};

/// One tile of queries of one head of one sequence.
template <typename E, AttentionForm kForm>
__global__ void __launch_bounds__(kAttentionThreads, E::kForwardBlocks)
    forward_kernel(AttentionArguments a, const typename E::Element* q,
                   const typename E::Element* kv, typename E::Element* out, float* log_sum_exp) {
  if constexpr (!E::kHasCode) return E::trap();
  auto& shared = *dynamic_shared<ForwardShared<E, kForm>>();
  using Place = BlockPlace<kForm>;
  kv = Place::kv_of(a, q, kv);
  const Place place(a, E::kRows, a.causal);
  const HeadMask<kForm> mask(a, place.b, place.h);
  const int first = place.first_row;
  AsyncCopies copies;
  load_tile<E, E::kRows>(a, q + place.of_query(a, first), a.q_stride, first, a.seq, shared.queries,
                         copies);

  const auto load = [&](int key, KeyColumns<E>& columns) {
    load_keys(a, place, kv, key, columns, copies);
  };
  typename E::Held queries;
  const auto ready = [&] { E::hold(shared.queries, queries); };
  RunningSoftmax<E> softmax;
  typename E::Sums sums;
  const auto work = [&](int key, const KeyColumns<E>& columns, bool whole) {
    typename E::Scores scores;
    E::multiply(queries, columns.keys, scores);
    E::finish(scores);
    mask_scores<E>(mask, shared.mask, columns.bits, whole, a.scale, first, key, scores);
    softmax.absorb(scores, sums);
    if (mask.drops()) {
#pragma unroll
      for (int i = 0; i < E::kMyRows; ++i) {
#pragma unroll
        for (int j = 0; j < E::kMyColumns; ++j) {
          if (!bit_of<E>(columns.bits.kept[E::row(i)], j)) scores.at[i][j] = 0.0f;
        }
      }
    }
    E::accumulate(scores, columns.values, sums, shared.exchange);
    E::finish(sums);
  };
  for_each_tile<E>(mask, shared.mask, first, shared.columns, copies, load, ready, work);

  float factors[E::kMyRows];
#pragma unroll
  for (int i = 0; i < E::kMyRows; ++i) {
    const float sum = sum_of_row<E>(softmax.sum[i]);
    factors[i] = sum > 0.0f ? mask.drop_factor() / sum : 0.0f;
    const int t = first + E::row(i);
    if (t < a.seq && E::lane_column() == 0) {
      log_sum_exp[place.in_log_sum_exp(a, t)] =
          sum > 0.0f ? (softmax.max[i] + log2f(sum)) * kLn2 : kMinusInfinity;
    }
  }
  copies.wait();    // in case there was no tile
  __syncthreads();  // all threads are done with the queries
  put_sums<E>(sums, factors, shared.queries);
  __syncthreads();
  store_tile<E, E::kRows>(a, shared.queries, a.out_stride, first, a.seq,
                          out + place.in_out(a, first));
}

}  // namespace

void attention_forward(const Tensor& qkv, const AttentionOptions& options, Tensor out,
                       Tensor log_sum_exp) {
  const AttentionArguments a =
      attention_arguments(qkv, options, {&qkv, &options.memory.key_values, &out});
  dispatch_float(qkv.dtype(), [&]<typename T>() {
    const AttentionRows<const T> from(a, qkv, options.memory.key_values);
    dispatch_tiles<T, false>(a.d, [&]<typename E>() {
      dispatch_form(a, [&]<AttentionForm kForm>() {
        launch("attention_forward",
               attention_launch<E>(a, a.seq, a.heads, sizeof(ForwardShared<E, kForm>)),
               forward_kernel<E, kForm>, a, from.q, from.kv, out.data<T>(),
               log_sum_exp.data<float>());
      });
    });
  });
}

}  // namespace tessera::cuda
