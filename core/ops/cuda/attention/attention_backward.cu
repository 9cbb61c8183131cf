#include "core/cuda/packs.h"
#include "core/cuda/workspace.h"
#include "core/ops/cuda/attention/attention_columns.h"
#include "core/ops/cuda/attention/attention_tiles.h"
#include "core/ops/cuda/workspace_sizes.h"
#include "core/ops/device_ops.h"

// With S = scale × q kᵀ, P = softmax(S), Z the dropout factors and O = (P ∘ Z) v:
//     dv = (P ∘ Z)ᵀ dO,  dP = Z ∘ (dO vᵀ),  dS = P ∘ (dP − delta),  delta = rowsum(dO ∘ O),
//     dq = scale × dS k,  dk = scale × dSᵀ q.
// One kernel has tiles of keys as rows and loops over the queries, for dk and dv; the other has
// queries as rows, for dq. So every sum has one owner and one order.
namespace tessera::cuda {
namespace {

constexpr int kDeltaLanes = 8;  ///< that share a row

/// delta (B, Hl, T) = Σ dout × out over the columns of a head, in packs of N.
template <int N, typename T>
__global__ void delta_kernel(AttentionArguments a, const T* dout, const T* out, float* delta) {
  const int64_t count = static_cast<int64_t>(a.batch) * a.seq * a.heads;
  const int64_t i = global_thread() / kDeltaLanes;
  const int lane = static_cast<int>(threadIdx.x) % kDeltaLanes;
  float sum = 0.0f;
  if (i < count) {
    for (int c = lane * N; c < a.d; c += kDeltaLanes * N) {
      const Floats<N> x = load_floats<N>(dout + i * a.d + c), y = load_floats<N>(out + i * a.d + c);
      for (int j = 0; j < N; ++j) sum = fmaf(x.at[j], y.at[j], sum);
    }
  }
  for (int step = kDeltaLanes / 2; step > 0; step /= 2) {
    sum += __shfl_xor_sync(kWholeWarp, sum, step);
  }
  if (lane != 0 || i >= count) return;
  const int64_t row = i / a.heads, h = i % a.heads;
  delta[(row / a.seq * a.heads + h) * a.seq + row % a.seq] = sum;
}

/// log_sum_exp in powers of two. A fully masked row has no gradient: any finite reference makes its
/// weights 2^−inf = 0.
__device__ float reference_of(float log_sum_exp) {
  return log_sum_exp == kMinusInfinity ? 0.0f : log_sum_exp * kLog2E;
}

/// P ∘ Z without Z's factor, and dS, of a tile whose rows and columns are queries and keys in
/// either order: `drows` and `dcolumns` are those of dO and v. `mask_scores` turns products q·k
/// into scores; reference(i, j) and delta(i, j) are those of the query of a thread's row i and
/// column j. dS is zero where P is, even if dO·v is infinite: a hidden value may be anything.
template <typename E, typename Operand, typename Mask, typename MaskScores, typename Reference,
          typename Delta>
__device__ void weigh_tile(const Operand& rows, const typename E::Stored* columns,
                           const Operand& drows, const typename E::Stored* dcolumns,
                           const Mask& mask, const TileBits<E::kRows, E::kColumns>& bits,
                           const MaskScores& mask_scores, const Reference& reference,
                           const Delta& delta, typename E::Scores& weights,
                           typename E::Scores& dscores) {
  E::multiply(rows, columns, weights);
  E::finish(weights);
  mask_scores(weights);
  E::multiply(drows, dcolumns, dscores);  // tensor cores may compute it during the exponentials
  uint32_t kept[E::kMyRows][TileBits<E::kRows, E::kColumns>::kWords];
#pragma unroll
  for (int i = 0; i < E::kMyRows; ++i) {
#pragma unroll
    for (int word = 0; word < bits.kWords; ++word) {
      kept[i][word] = mask.drops() ? bits.kept[E::row(i)][word] : ~0u;
    }
  }
#pragma unroll
  for (int j = 0; j < E::kMyColumns; ++j) {
#pragma unroll
    for (int i = 0; i < E::kMyRows; ++i) {
      weights.at[i][j] = fast_exp2(weights.at[i][j] - reference(i, j));
    }
  }
  E::finish(dscores);
#pragma unroll
  for (int j = 0; j < E::kMyColumns; ++j) {
#pragma unroll
    for (int i = 0; i < E::kMyRows; ++i) {
      float &weight = weights.at[i][j], &product = dscores.at[i][j];
      const bool is_kept = bit_of<E>(kept[i], j);
      const float gradient = is_kept ? product * mask.drop_factor() : 0.0f;
      product = weight == 0.0f ? 0.0f : weight * (gradient - delta(i, j));
      weight = is_kept ? weight : 0.0f;
    }
  }
}

template <typename E, AttentionForm kForm>
struct KeysShared {
  struct Columns {
    TileBits<E::kRows, E::kColumns> bits;
    float reference[E::kColumns], delta[E::kColumns];
    alignas(E::kAlignment) typename E::Stored queries[E::kColumns * E::kRowSize];
    alignas(E::kAlignment) typename E::Stored douts[E::kColumns * E::kRowSize];
  };

  TileMask<Rows::keys, E::kRows, E::kColumns, HeadMask<kForm>::kHasPattern> mask;
  alignas(E::kAlignment) typename E::Stored keys[E::kRows * E::kRowSize];
  alignas(E::kAlignment) typename E::Stored values[E::kRows * E::kRowSize];
  Columns columns[E::kStages];
  typename E::Exchange exchange;
};

/// dk and dv of one tile of keys, summed over the heads of its group. Scores are transposed: one
/// row per key.
template <typename E, AttentionForm kForm>
__global__ void __launch_bounds__(kAttentionThreads, E::kKeysBlocks)
    keys_kernel(AttentionArguments a, const typename E::Element* q, const typename E::Element* kv,
                const typename E::Element* dout, const float* log_sum_exp, const float* delta,
                typename E::Element* dkv) {
  if constexpr (!E::kHasCode) return E::trap();
  auto& shared = *dynamic_shared<KeysShared<E, kForm>>();
  using Place = BlockPlace<kForm>;
  kv = Place::kv_of(a, q, kv);
  Place place = Place::of_group(a, E::kRows);
  const int first = place.first_row, end_head = place.h + a.in_group;
  AsyncCopies copies;
  load_tile<E, E::kRows>(a, kv + place.of_key(a, first), Place::kv_stride(a), first, Place::keys(a),
                         shared.keys, copies);
  load_tile<E, E::kRows>(a, kv + place.of_value(a, first), Place::kv_stride(a), first,
                         Place::keys(a), shared.values, copies);

  using Columns = typename KeysShared<E, kForm>::Columns;
  const auto load = [&](int query, Columns& columns) {
    load_tile<E, E::kColumns>(a, q + place.of_query(a, query), a.q_stride, query, a.seq,
                              columns.queries, copies);
    load_tile<E, E::kColumns>(a, dout + place.in_out(a, query), a.out_stride, query, a.seq,
                              columns.douts, copies);
    if (const int i = static_cast<int>(threadIdx.x); i < E::kColumns) {
      const bool within = query + i < a.seq;
      const int64_t at = place.in_log_sum_exp(a, query + i);
      columns.reference[i] = within ? reference_of(log_sum_exp[at]) : 0.0f;
      columns.delta[i] = within ? delta[at] : 0.0f;
    }
  };
  typename E::Sums dk, dv;
  for (; place.h < end_head; ++place.h) {
    const HeadMask<kForm> mask(a, place.b, place.h);
    const auto work = [&](int query, const Columns& columns, bool whole) {
      typename E::Scores weights, dscores;
      const auto mask_weights = [&](typename E::Scores& scores) {
        mask_scores<E>(mask, shared.mask, columns.bits, whole, a.scale, first, query, scores);
      };
      const auto column = [](int j) { return E::lane_column() + E::column(j); };
      const typename E::Stored *const keys = shared.keys, *const values = shared.values;
      weigh_tile<E>(
          keys, columns.queries, values, columns.douts, mask, columns.bits, mask_weights,
          [&](int, int j) { return columns.reference[column(j)]; },
          [&](int, int j) { return columns.delta[column(j)]; }, weights, dscores);
      E::accumulate(weights, columns.douts, dv, shared.exchange);
      E::accumulate(dscores, columns.queries, dk, shared.exchange);
      E::finish(dv);
      E::finish(dk);
    };
    const auto ready = [] {};
    for_each_tile<E>(mask, shared.mask, first, shared.columns, copies, load, ready, work);
    __syncthreads();  // all threads are done with the head's tiles
  }
  --place.h;

  float scales[E::kMyRows], factors[E::kMyRows];
#pragma unroll
  for (int i = 0; i < E::kMyRows; ++i) {
    scales[i] = a.scale;
    factors[i] = a.drops ? a.drop_factor : 1.0f;
  }
  copies.wait();    // in case there was no tile
  __syncthreads();  // all threads are done with keys and values
  put_sums<E>(dk, scales, shared.keys);
  put_sums<E>(dv, factors, shared.values);
  __syncthreads();
  store_tile<E, E::kRows>(a, shared.keys, Place::kv_stride(a), first, Place::keys(a),
                          dkv + place.of_key(a, first));
  store_tile<E, E::kRows>(a, shared.values, Place::kv_stride(a), first, Place::keys(a),
                          dkv + place.of_value(a, first));
}

/// reference_of() and delta of a thread's rows of a tile.
template <typename E, typename Place>
__device__ void read_rows(const AttentionArguments& a, const Place& place, int first,
                          const float* log_sum_exp, const float* delta,
                          float (&references)[E::kMyRows], float (&deltas)[E::kMyRows]) {
#pragma unroll
  for (int i = 0; i < E::kMyRows; ++i) {
    const int t = first + E::row(i);
    const int64_t at = place.in_log_sum_exp(a, t);
    references[i] = t < a.seq ? reference_of(log_sum_exp[at]) : 0.0f;
    deltas[i] = t < a.seq ? delta[at] : 0.0f;
  }
}

template <typename E, AttentionForm kForm>
struct QueriesShared {
  TileMask<Rows::queries, E::kRows, E::kColumns, HeadMask<kForm>::kHasPattern> mask;
  alignas(E::kAlignment) typename E::Stored queries[E::kRows * E::kRowSize];
  alignas(E::kAlignment) typename E::Stored douts[E::kRows * E::kRowSize];
  KeyColumns<E> columns[E::kStages];
  typename E::Exchange exchange;
};

/// dq of one tile of queries.
template <typename E, AttentionForm kForm>
__global__ void __launch_bounds__(kAttentionThreads, E::kQueriesBlocks)
    queries_kernel(AttentionArguments a, const typename E::Element* q,
                   const typename E::Element* kv, const typename E::Element* dout,
                   const float* log_sum_exp, const float* delta, typename E::Element* dq_rows) {
  if constexpr (!E::kHasCode) return E::trap();
  auto& shared = *dynamic_shared<QueriesShared<E, kForm>>();
  using Place = BlockPlace<kForm>;
  kv = Place::kv_of(a, q, kv);
  const Place place(a, E::kRows, a.causal);
  const HeadMask<kForm> mask(a, place.b, place.h);
  const int first = place.first_row;
  AsyncCopies copies;
  load_tile<E, E::kRows>(a, q + place.of_query(a, first), a.q_stride, first, a.seq, shared.queries,
                         copies);
  load_tile<E, E::kRows>(a, dout + place.in_out(a, first), a.out_stride, first, a.seq, shared.douts,
                         copies);
  float references[E::kMyRows], deltas[E::kMyRows], scales[E::kMyRows];
  read_rows<E>(a, place, first, log_sum_exp, delta, references, deltas);
#pragma unroll
  for (int i = 0; i < E::kMyRows; ++i) scales[i] = a.scale;

  const auto load = [&](int key, KeyColumns<E>& columns) {
    load_keys(a, place, kv, key, columns, copies);
  };
  typename E::Held queries, douts;
  const auto ready = [&] {
    E::hold(shared.queries, queries);
    E::hold(shared.douts, douts);
  };
  typename E::Sums dq;
  const auto work = [&](int key, const KeyColumns<E>& columns, bool whole) {
    typename E::Scores weights, dscores;
    const auto mask_weights = [&](typename E::Scores& scores) {
      mask_scores<E>(mask, shared.mask, columns.bits, whole, a.scale, first, key, scores);
    };
    weigh_tile<E>(
        queries, columns.keys, douts, columns.values, mask, columns.bits, mask_weights,
        [&](int i, int) { return references[i]; }, [&](int i, int) { return deltas[i]; }, weights,
        dscores);
    E::accumulate(dscores, columns.keys, dq, shared.exchange);
    E::finish(dq);
  };
  for_each_tile<E>(mask, shared.mask, first, shared.columns, copies, load, ready, work);
  copies.wait();    // in case there was no tile
  __syncthreads();  // all threads are done with the queries
  put_sums<E>(dq, scales, shared.queries);
  __syncthreads();
  store_tile<E, E::kRows>(a, shared.queries, a.q_stride, first, a.seq,
                          dq_rows + place.of_query(a, first));
}

template <typename E, AttentionForm kForm>
struct BiasShared {
  TileMask<Rows::queries, E::kRows, E::kColumns, HeadMask<kForm>::kHasPattern> mask;
  TileBits<E::kRows, E::kColumns> bits;
  alignas(E::kAlignment) typename E::Stored queries[E::kRows * E::kRowSize];
  alignas(E::kAlignment) typename E::Stored douts[E::kRows * E::kRowSize];
  alignas(E::kAlignment) typename E::Stored keys[E::kColumns * E::kRowSize];
  alignas(E::kAlignment) typename E::Stored values[E::kColumns * E::kRowSize];
  float gradients[E::kRows]
                 [E::kColumns + 1];  ///< padded: lanes that sum diagonals use different banks
};

/// The sums of dS over the diagonals of all tiles of a head whose keys start a fixed offset from
/// their queries, in all sequences: one thread per distance. Recomputing dS costs two products, but
/// no sum has a second owner, and there are only a few partial sums per distance.
///
/// With AttentionForm::runs, keys and queries of a tile are any distance apart. Threads sum the
/// distances from the block's offset on, of all tiles that have them: most tiles are computed by
/// two blocks.
template <typename E, AttentionForm kForm>
__global__ void __launch_bounds__(kAttentionThreads)
    bias_kernel(AttentionArguments a, int before, int count, const typename E::Element* q,
                const typename E::Element* kv, const typename E::Element* dout,
                const float* log_sum_exp, const float* delta, float* sums) {
  constexpr bool kHasRuns = HeadMask<kForm>::kHasRuns;
  constexpr int kDistances = kHasRuns ? kAttentionThreads : E::kRows + E::kColumns - 1;
  static_assert(kDistances <= kAttentionThreads && E::kRows % E::kColumns == 0);
  if constexpr (!E::kHasCode) return E::trap();
  auto& shared = *dynamic_shared<BiasShared<E, kForm>>();
  const int thread = static_cast<int>(threadIdx.x), block = static_cast<int>(blockIdx.x);
  const int h = block / count,
            offset = (block % count - before) * (kHasRuns ? kDistances : E::kColumns);
  // The rows that this thread's diagonal crosses.
  const int first_row_of_sum = max(E::kRows - 1 - thread, 0);
  const int end_row_of_sum = min(E::kRows, kDistances - thread);
  float sum = 0.0f;
  using Place = BlockPlace<kForm>;
  kv = Place::kv_of(a, q, kv);
  const auto add_tile = [&](int b, int first, int key) {
    const Place place(b, h, first);
    const HeadMask<kForm> mask(a, b, h);
    __syncthreads();  // all threads are done with the tile before
    const auto seen = shared.mask.begin(mask, first);
    if (!seen.overlaps(key, key + E::kColumns)) return;
    if constexpr (kHasRuns) {
      bool has_distances = false;
      for (int r = lane_of_thread(); r < min(E::kRows, a.seq - first); r += kWarpSize) {
        const int from = mask.place_of(first + r, shared.mask.origin(r)) + offset;
        has_distances |= from < key + E::kColumns && key < from + kDistances;
      }
      if (__any_sync(kWholeWarp, has_distances ? 1 : 0) == 0) return;
    }
    const bool whole = !mask.looks_at_tensors() && seen.whole(key, key + E::kColumns);
    if (!whole) shared.mask.look(mask, first, key, shared.bits);
    if (mask.drops()) shared.mask.draw(mask, first, key, shared.bits);
    AsyncCopies copies;
    load_tile<E, E::kRows>(a, q + place.of_query(a, first), a.q_stride, first, a.seq,
                           shared.queries, copies);
    load_tile<E, E::kRows>(a, dout + place.in_out(a, first), a.out_stride, first, a.seq,
                           shared.douts, copies);
    load_tile<E, E::kColumns>(a, kv + place.of_key(a, key), Place::kv_stride(a), key,
                              Place::keys(a), shared.keys, copies);
    load_tile<E, E::kColumns>(a, kv + place.of_value(a, key), Place::kv_stride(a), key,
                              Place::keys(a), shared.values, copies);
    copies.wait();
    E::publish();
    __syncthreads();
    typename E::Held queries, douts;
    E::hold(shared.queries, queries);
    E::hold(shared.douts, douts);
    typename E::Scores weights, dscores;
    const auto mask_weights = [&](typename E::Scores& scores) {
      mask_scores<E>(mask, shared.mask, shared.bits, whole, a.scale, first, key, scores);
    };
    float references[E::kMyRows], deltas[E::kMyRows];
    read_rows<E>(a, place, first, log_sum_exp, delta, references, deltas);
    weigh_tile<E>(
        queries, shared.keys, douts, shared.values, mask, shared.bits, mask_weights,
        [&](int i, int) { return references[i]; }, [&](int i, int) { return deltas[i]; }, weights,
        dscores);
#pragma unroll
    for (int i = 0; i < E::kMyRows; ++i) {
#pragma unroll
      for (int j = 0; j < E::kMyColumns; ++j) {
        shared.gradients[E::row(i)][E::lane_column() + E::column(j)] = dscores.at[i][j];
      }
    }
    __syncthreads();
    if constexpr (kHasRuns) {
      const int end = min(E::kRows, a.seq - first);
      for (int r = 0; r < end; ++r) {
        const int own_key = mask.place_of(first + r, shared.mask.origin(r));
        const int column = own_key + offset + thread - key;
        if (column >= 0 && column < E::kColumns) sum += shared.gradients[r][column];
      }
    } else {
      for (int r = first_row_of_sum; r < end_row_of_sum; ++r) {
        sum += shared.gradients[r][r + thread - (E::kRows - 1)];
      }
    }
  };
  for (int b = 0; b < a.batch; ++b) {
    for (int first = 0; first < a.seq; first += E::kRows) {
      if constexpr (kHasRuns) {
        const HeadMask<kForm> mask(a, b, h);
        const int last = min(first + E::kRows, a.seq) - 1;
        const int begin = max(mask.place_of(first) + offset, 0) / E::kColumns * E::kColumns;
        const int end = min(mask.place_of(last) + offset + kDistances, a.keys);
        for (int key = begin; key < end; key += E::kColumns) add_tile(b, first, key);
      } else {
        const int key = first + offset;
        if (key >= 0 && key < a.seq) add_tile(b, first, key);
      }
    }
  }
  if (thread < kDistances) sums[static_cast<int64_t>(block) * kDistances + thread] = sum;
}

/// dbias += the sums of bias_kernel's blocks. A thread has one distance of one head.
__global__ void add_bias_kernel(AttentionArguments a, DiagonalTiles tiles, const float* sums,
                                float* dbias) {
  const int64_t distances = 2 * int64_t{a.reach} - 1;
  for (int64_t at = global_thread(); at < a.heads * distances; at += global_threads()) {
    const int64_t h = at / distances, distance = at % distances - (a.reach - 1);
    const int64_t from_first = distance + tiles.before * tiles.columns;
    if (from_first < 1 - tiles.rows) continue;  // outside the window
    // Tiles whose offset is above distance − columns and at most distance + rows − 1.
    const int64_t begin = max(from_first, int64_t{0}) / tiles.columns;
    const int64_t end = min((from_first + tiles.rows - 1) / tiles.columns + 1, tiles.count);
    float sum = 0.0f;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t place = from_first - i * tiles.columns + tiles.rows - 1;
      sum += sums[(h * tiles.count + i) * tiles.distances() + place];
    }
    dbias[h * a.position_bias_stride + a.position_bias_stride / 2 + distance] += sum;
  }
}

DiagonalTiles diagonal_tiles(const AttentionArguments& a, int64_t rows, int64_t columns) {
  const bool has_window = a.window > 0 && a.global_tokens == 0;
  const int farthest = (has_window ? std::min(a.reach, a.window_reach) : a.reach) - 1;
  const int later = std::min(farthest, std::max(a.prefix - 1, 0));
  return {rows, columns, farthest, a.causal ? later : farthest};
}

}  // namespace

void attention_backward(const Tensor& dout, const Tensor& qkv, const Tensor& out,
                        const Tensor& log_sum_exp, const AttentionOptions& options, Tensor dqkv,
                        Tensor dposition_bias, Tensor dkey_values) {
  const AttentionArguments a = attention_arguments(
      qkv, options, {&dout, &qkv, &dqkv, &options.memory.key_values, &dkey_values});
  const int64_t rows = log_sum_exp.numel();
  if (rows == 0 && a.keys == 0) return;
  const bool has_dbias = dposition_bias.defined();
  size_t scratch = attention_backward_scratch(rows);
  if (has_dbias) scratch += position_bias_scratch(a.heads, a.reach);
  auto* delta = static_cast<float*>(workspace(scratch));
  const float* lse = log_sum_exp.data<float>();
  dispatch_float(qkv.dtype(), [&]<typename T>() {
    const AttentionRows<const T> in(a, qkv, options.memory.key_values);
    const AttentionRows<T> to(a, dqkv, dkey_values);
    const T* d_out = dout.data<T>();
    constexpr int kPack = kPackSize<T>;
    const T* result = out.data<T>();
    const bool packs = a.d % kPack == 0 && takes_packs<kPack>(d_out) && takes_packs<kPack>(result);
    launch("attention_backward",
           {dim3(static_cast<unsigned>(ceil_div(rows * kDeltaLanes, kBlockThreads))),
            dim3(kBlockThreads)},
           packs ? delta_kernel<kPack, T> : delta_kernel<1, T>, a, d_out, result, delta);
    dispatch_tiles<T, true>(a.d, [&]<typename E>() {
      dispatch_form(a, [&]<AttentionForm kForm>() {
        launch("attention_backward",
               attention_launch<E>(a, a.keys, a.kv_heads, sizeof(KeysShared<E, kForm>)),
               keys_kernel<E, kForm>, a, in.q, in.kv, d_out, lse, delta, to.kv);
        launch("attention_backward",
               attention_launch<E>(a, a.seq, a.heads, sizeof(QueriesShared<E, kForm>)),
               queries_kernel<E, kForm>, a, in.q, in.kv, d_out, lse, delta, to.q);
      });
      if (!has_dbias) return;
      const DiagonalTiles tiles = a.positions != nullptr ? diagonal_tiles(a, 1, kAttentionThreads)
                                                         : diagonal_tiles(a, E::kRows, E::kColumns);
      require(tiles.bytes(a.heads) <= position_bias_scratch(a.heads, a.reach),
              "attention_backward: tiles of {} x {} are not among those of position_bias_scratch()",
              E::kRows, E::kColumns);
      float* sums = delta + rows;
      const auto blocks = static_cast<unsigned>(narrow<int>(a.heads * tiles.count));
      const auto add_diagonals = [&]<AttentionForm kForm>() {
        launch("attention_backward",
               {dim3(blocks), dim3(kAttentionThreads), sizeof(BiasShared<E, kForm>)},
               bias_kernel<E, kForm>, a, narrow<int>(tiles.before), narrow<int>(tiles.count), in.q,
               in.kv, d_out, lse, delta, sums);
      };
      if (a.positions != nullptr) {
        add_diagonals.template operator()<AttentionForm::runs>();
      } else if (has_pattern(a)) {
        add_diagonals.template operator()<AttentionForm::pattern>();
      } else {
        add_diagonals.template operator()<AttentionForm::bias>();
      }
      launch("attention_backward",
             one_dimensional(a.heads * (2 * int64_t{a.reach} - 1), kBlockThreads), add_bias_kernel,
             a, tiles, sums, dposition_bias.data<float>());
    });
  });
}

}  // namespace tessera::cuda
