#include <algorithm>

#include "core/cuda/rows.h"
#include "core/cuda/workspace.h"
#include "core/ops/cuda/attention/attention_tiles.h"
#include "core/ops/decoded_keys.h"
#include "core/ops/device_ops.h"

// One query per head gives too few blocks for a GPU, so the keys are split ("Flash-Decoding", Dao,
// Haziza, Massa, Sizov, 2023): a block computes a chunk's softmax relative to the chunk's maximum,
// and a second kernel combines a head's chunks. Chunks are counted from the first visible key, so a
// result depends neither on the keys' position in the cache nor on the number of heads.
namespace tessera::cuda {
namespace {

/// Few enough keys that a lane's share of all of them, and of their values, is in flight at once;
/// enough that a chunk writes little compared with what it reads. 12 heads of 1024 keys make 192
/// blocks.
constexpr int kChunk = 64;
constexpr int kRows = 4;  ///< keys per lane
constexpr int kTeams = kChunk / kRows;

/// So many threads per SM are enough, given their accesses in flight. Without this bound the
/// compiler makes room for more threads by loading some values only after the scores.
constexpr int kThreadsOnSm = 512;

/// One lane's share of a row of up to kColumns elements, which kRowLanes lanes (a team) hold
/// together: packs of N, and zeros beyond the row's end.
template <typename T, int N, int kColumns>
struct RowShare {
  static constexpr int kRowLanes = std::min(kWarpSize, kColumns / N);
  static constexpr int kPacks = kColumns / (kRowLanes * N);
  static constexpr int kThreads = kTeams * kRowLanes;
  static constexpr int kBlocksOnSm = kThreadsOnSm / kThreads;
  static_assert(kThreads >= kColumns && kBlocksOnSm >= 1);

  Pack<T, N> packs[kPacks] = {};

  __device__ static int column(int p) {
    return (static_cast<int>(threadIdx.x) % kRowLanes + p * kRowLanes) * N;
  }
  __device__ void read(const T* row, int d) {
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      if (column(p) < d) packs[p] = load<N>(row + column(p));
    }
  }
  /// The lane's share of a dot product.
  __device__ float dot(const RowShare& other) const {
    float sum = 0.0f;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        sum = fmaf(to_float(packs[p].at[i]), to_float(other.packs[p].at[i]), sum);
      }
    }
    return sum;
  }
  /// sums += weight × the row.
  __device__ void add_to(Floats<N> (&sums)[kPacks], float weight) const {
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        sums[p].at[i] = fmaf(weight, to_float(packs[p].at[i]), sums[p].at[i]);
      }
    }
  }
};

/// Partial softmaxes before the division, each relative to its own maximum: sums are of values
/// times weights 2^(score − maximum).
struct Partials {
  float* sums;              ///< (heads, chunks, D)
  float *maxima, *weights;  ///< (heads, chunks)
};

template <typename T>
struct Decode {
  const T *q, *keys, *values;
  int64_t capacity;
  Positions seen;  ///< positions or, with a pattern, indices of seen keys
  int chunks, d;
  float to_powers;    ///< scales q·k to a score in powers of two
  const float* bias;  ///< of head 0 and key 0; nullptr if there is none
  int64_t bias_stride;
  int heads;     ///< of a sequence
  int in_group;  ///< heads that share a key and a value
  Partials partials;
  T* out;
  // Only with a pattern: key i of those seen is at i or, from `global` on, at begin + (i − global)
  // × step. The mask's rows of the newest position, of head 0 and key 0, hide more or are added;
  // nullptr if there are none.
  int global, begin, step;
  const uint8_t* hidden;
  const float* additive;
  int64_t hidden_stride, additive_stride;  ///< between heads

  bool has_pattern() const {
    return global > 0 || step > 1 || hidden != nullptr || additive != nullptr;
  }
};

/// Forms that kernels are compiled for; a pattern may have a position bias, and hide all keys.
enum class DecodeForm : uint8_t { plain, bias, pattern };

/// The reference of the scores, given their maximum: if all keys are hidden, any finite number
/// makes their weights 2^−inf = 0.
template <bool kMayHideAll>
__device__ float reference_of(float max) {
  if constexpr (kMayHideAll) return max == kMinusInfinity ? 0.0f : max;
  return max;
}
/// 0 if all keys are hidden.
template <bool kMayHideAll>
__device__ float mean_of(float sum, float weight_sum) {
  if constexpr (kMayHideAll) return weight_sum == 0.0f ? 0.0f : sum / weight_sum;
  return sum / weight_sum;
}

/// The partial softmaxes of a block's teams, in shared memory.
template <int N, int kColumns>
struct TeamSoftmaxes {
  Pack<float, N> sums[kTeams][kColumns / N];
  float maxima[kTeams], weights[kTeams];
};

/// Combines one column of the teams' softmaxes: the block's partial result, or the head's result.
template <bool kMayHideAll, typename T, int N, int kColumns>
__device__ void combine_teams(const Decode<T>& a, const TeamSoftmaxes<N, kColumns>& teams,
                              int column) {
  float max = teams.maxima[0];  // finite unless keys are hidden: team 0 has the chunk's first key
#pragma unroll
  for (int t = 1; t < kTeams; ++t) max = fmaxf(max, teams.maxima[t]);
  const float reference = reference_of<kMayHideAll>(max);
  float sum = 0.0f, weight_sum = 0.0f;
#pragma unroll
  for (int t = 0; t < kTeams; ++t) {
    const float factor = fast_exp2(teams.maxima[t] - reference);
    weight_sum = fmaf(factor, teams.weights[t], weight_sum);
    sum = fmaf(factor, teams.sums[t][column / N].at[column % N], sum);
  }
  const int64_t block = blockIdx.x;
  if (a.chunks == 1) {
    a.out[block * a.d + column] = from_float<T>(mean_of<kMayHideAll>(sum, weight_sum));
    return;
  }
  a.partials.sums[block * a.d + column] = sum;
  if (column == 0) {
    a.partials.maxima[block] = max;
    a.partials.weights[block] = weight_sum;
  }
}

/// A block processes one chunk of a head's keys; a team, every 16th of them.
template <typename T, int N, int kColumns, DecodeForm kForm>
__global__ void __launch_bounds__(RowShare<T, N, kColumns>::kThreads,
                                  RowShare<T, N, kColumns>::kBlocksOnSm) chunk_kernel(Decode<T> a) {
  using Share = RowShare<T, N, kColumns>;
  __shared__ TeamSoftmaxes<N, kColumns> teams;
  const int thread = static_cast<int>(threadIdx.x), team = thread / Share::kRowLanes;
  const int64_t head = blockIdx.x / a.chunks;
  const int chunk = static_cast<int>(blockIdx.x % a.chunks);
  const int first = a.seen.begin + chunk * kChunk + team;
  const int64_t offset = (head / a.in_group * a.capacity + first) * a.d;
  constexpr bool kHasPattern = kForm == DecodeForm::pattern;
  const auto position = [&](int r) {
    const int i = first + r * kTeams;
    if constexpr (!kHasPattern) return i;
    return i < a.global ? i : a.begin + (i - a.global) * a.step;
  };
  bool shown[kRows];  // only with a pattern
  if constexpr (kHasPattern) {
    const int64_t h = head % a.heads;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      shown[r] = first + r * kTeams < a.seen.end &&
                 (a.hidden == nullptr || a.hidden[h * a.hidden_stride + position(r)] == 0) &&
                 (a.additive == nullptr ||
                  a.additive[h * a.additive_stride + position(r)] != kMinusInfinity);
    }
  }
  const auto seen = [&](int r) {
    if constexpr (kHasPattern) return shown[r];
    return first + r * kTeams < a.seen.end;
  };
  /// The offset of element `r` of a key or value in the cache.
  const auto element = [&](int r) {
    if constexpr (!kHasPattern) return offset + r * kTeams * a.d;
    return (head / a.in_group * a.capacity + position(r)) * a.d;
  };
  Share query, keys[kRows], values[kRows];
  query.read(a.q + head * a.d, a.d);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (seen(r)) keys[r].read(a.keys + element(r), a.d);
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (seen(r)) values[r].read(a.values + element(r), a.d);
  }

  float scores[kRows], max = kMinusInfinity;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const float product = sum_of_row<Share>(query.dot(keys[r]));
    scores[r] = seen(r) ? product * a.to_powers : kMinusInfinity;
    if constexpr (kForm != DecodeForm::plain) {
      const float* bias = a.bias + head % a.heads * a.bias_stride;
      if (seen(r) && (!kHasPattern || a.bias != nullptr)) {
        scores[r] = fmaf(product, a.to_powers, bias[position(r)] * kLog2E);
      }
    }
    if constexpr (kHasPattern) {
      if (seen(r) && a.additive != nullptr) {
        const float* row = a.additive + head % a.heads * a.additive_stride;
        scores[r] = fmaf(row[position(r)], kLog2E, scores[r]);
      }
    }
    max = fmaxf(max, scores[r]);
  }
  const float reference = reference_of<kHasPattern>(max);
  Floats<N> sums[Share::kPacks] = {};
  float weight_sum = 0.0f;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const float weight = seen(r) ? fast_exp2(scores[r] - reference) : 0.0f;
    weight_sum += weight;
    values[r].add_to(sums, weight);
  }
#pragma unroll
  for (int p = 0; p < Share::kPacks; ++p) {
    teams.sums[team][Share::column(p) / N] = round_to<float>(sums[p]);
  }
  if (thread % Share::kRowLanes == 0) {
    teams.maxima[team] = max;
    teams.weights[team] = weight_sum;
  }
  __syncthreads();
  if (thread < a.d) combine_teams<kHasPattern>(a, teams, thread);
}

constexpr int kWarps = 16;  ///< per block that combines chunks

/// A block combines 32 columns of a head; a warp, every 16th chunk.
template <typename T, bool kMayHideAll>
__global__ void combine_chunks_kernel(Decode<T> a) {
  __shared__ float sums[kWarps][kWarpSize], weights[kWarps];
  const int lane = lane_of_thread(), warp = warp_of_thread();
  const int column = static_cast<int>(blockIdx.y) * kWarpSize + lane;
  const int64_t head = blockIdx.x, first = head * a.chunks;
  float max = kMinusInfinity;
  for (int c = lane; c < a.chunks; c += kWarpSize) max = fmaxf(max, a.partials.maxima[first + c]);
  max = reference_of<kMayHideAll>(warp_max(max));
  float sum = 0.0f, weight_sum = 0.0f;
  for (int c = warp; c < a.chunks; c += kWarps) {
    const float factor = fast_exp2(a.partials.maxima[first + c] - max);
    weight_sum = fmaf(factor, a.partials.weights[first + c], weight_sum);
    if (column < a.d) sum = fmaf(factor, a.partials.sums[(first + c) * a.d + column], sum);
  }
  sums[warp][lane] = sum;
  if (lane == 0) weights[warp] = weight_sum;
  __syncthreads();
  if (warp != 0 || column >= a.d) return;
  float total = 0.0f, total_weight = 0.0f;
  for (int w = 0; w < kWarps; ++w) {
    total += sums[w][lane];
    total_weight += weights[w];
  }
  a.out[head * a.d + column] = from_float<T>(mean_of<kMayHideAll>(total, total_weight));
}

/// Room for the partial results of the whole cache, so that the workspace does not grow with the
/// text.
Partials partials(int64_t heads, int64_t keys, int64_t d) {
  const int64_t chunks = heads * ceil_div(keys, kChunk);
  auto* sums =
      static_cast<float*>(workspace(static_cast<size_t>(chunks * (d + 2)) * sizeof(float)));
  return {sums, sums + chunks * d, sums + chunks * (d + 1)};
}

template <typename T>
void run(const Decode<T>& decode, int64_t heads, const Tensor& q, const Tensor& keys,
         const Tensor& values) {
  constexpr const char* kOp = "attention_decode";
  dispatch_pack<T>(decode.d, {&q, &keys, &values}, [&]<int N>() {
    const auto take = [&]<int kColumns>() {
      const auto blocks = static_cast<unsigned>(narrow<int>(heads * decode.chunks));
      const LaunchShape shape{dim3(blocks), dim3(RowShare<T, N, kColumns>::kThreads)};
      if (decode.has_pattern()) {
        launch(kOp, shape, chunk_kernel<T, N, kColumns, DecodeForm::pattern>, decode);
      } else if (decode.bias != nullptr) {
        launch(kOp, shape, chunk_kernel<T, N, kColumns, DecodeForm::bias>, decode);
      } else {
        launch(kOp, shape, chunk_kernel<T, N, kColumns, DecodeForm::plain>, decode);
      }
    };
    if (decode.d <= 64) return take.template operator()<64>();
    if (decode.d <= 128) return take.template operator()<128>();
    take.template operator()<256>();
  });
  if (decode.chunks == 1) return;
  const LaunchShape shape{
      dim3(static_cast<unsigned>(heads), static_cast<unsigned>(ceil_div(decode.d, kWarpSize))),
      dim3(kWarps * kWarpSize)};
  const auto combine =
      decode.has_pattern() ? combine_chunks_kernel<T, true> : combine_chunks_kernel<T, false>;
  launch(kOp, shape, combine, decode);
}

}  // namespace

void attention_decode(const Tensor& q, const Tensor& keys, const Tensor& values, int64_t length,
                      const AttentionOptions& options, Tensor out) {
  const AttentionMask& mask = options.mask;
  const Tensor& position_bias = options.position_bias;
  const int64_t heads = q.dim(0) * q.dim(1), capacity = keys.dim(2);
  const int d = narrow<int>(keys.dim(3));
  const DecodedKeys decoded = decoded_keys(mask, length);
  const MaskPlane<uint8_t> hidden = detail::mask_plane<uint8_t>(mask.hidden, options);
  const MaskPlane<float> additive = detail::mask_plane<float>(mask.additive, options);
  const bool has_pattern =
      decoded.global > 0 || decoded.step > 1 || hidden.data != nullptr || additive.data != nullptr;
  const auto newest_row = [&](const auto& plane) {
    return plane.data == nullptr ? nullptr : plane.data + (length - 1) * plane.length;
  };
  const int begin = has_pattern ? 0 : narrow<int>(decoded.begin);
  const int end = narrow<int>(has_pattern ? decoded.count() : length);
  require(
      d <= kMaxHeadColumns,
      "attention on a GPU supports heads of up to {} columns, but these have {}: choose more heads",
      kMaxHeadColumns, d);
  const int64_t most =
      mask.window == 0 ? capacity : std::min(mask.window + mask.global_tokens, capacity);
  const float* bias = nullptr;
  int64_t bias_stride = 0;
  if (position_bias.defined()) {
    bias_stride = position_bias.dim(1);
    bias = position_bias.data<float>() + bias_stride / 2 - (length - 1);
  }
  dispatch_float(q.dtype(), [&]<typename T>() {
    const Decode<T> decode{q.data<T>(),
                           keys.data<T>(),
                           values.data<T>(),
                           capacity,
                           {begin, end},
                           narrow<int>(ceil_div(end - begin, kChunk)),
                           d,
                           options.scale * kLog2E,
                           bias,
                           bias_stride,
                           narrow<int>(q.dim(1)),
                           narrow<int>(keys.dim(1) == 0 ? 1 : q.dim(1) / keys.dim(1)),
                           partials(heads, most, d),
                           out.data<T>(),
                           narrow<int>(decoded.global),
                           narrow<int>(decoded.begin),
                           narrow<int>(decoded.step),
                           newest_row(hidden),
                           newest_row(additive),
                           hidden.head_stride,
                           additive.head_stride};
    run(decode, heads, q, keys, values);
  });
}

}  // namespace tessera::cuda
