#include "core/cuda/device_code.h"
#include "core/cuda/launch.h"
#include "core/cuda/philox.h"
#include "core/ops/cuda/attention/cudnn_layouts.h"
#include "core/ops/cuda/dropout_rng.h"

namespace tessera::cuda {
namespace {

/// The documents, as kernels need them.
struct Documents {
  const int32_t* ends;     // cumulative, if ragged
  const int32_t* lengths;  // of sequences; null: nothing is hidden
  int64_t count, length, seq_length;
  int64_t window;

  Documents(const AttentionMask& mask, const DocumentPlaces& places)
      : ends(places.ragged ? mask.documents.data<int32_t>() : nullptr),
        lengths(mask.lengths.defined() ? mask.lengths.data<int32_t>() : nullptr),
        count(places.count),
        length(places.length),
        seq_length(places.seq_length),
        window(mask.window) {}

  __device__ int64_t first(int64_t i) const {
    const int64_t document = min(i, count);
    return ends == nullptr ? document * length : ends[document];
  }
  __device__ int64_t rows(int64_t i) const { return first(i + 1) - first(i); }
  __device__ int64_t keys(int64_t i) const {
    const int64_t begin = first(i), rows_of_it = rows(i);
    if (lengths == nullptr || rows_of_it == 0) return rows_of_it;
    const int64_t seen = lengths[begin / seq_length] - begin % seq_length;
    return min(max(seen, int64_t{0}), rows_of_it);
  }
  /// A row sees its own key or one before it; rows that see none are the last ones.
  __device__ int64_t queries(int64_t i) const {
    const int64_t seen = keys(i);
    if (seen == 0) return 0;
    return window == 0 ? rows(i) : min(rows(i), seen + window - 1);
  }
};

__global__ void describe_kernel(Documents documents, int64_t calls, RowElements elements,
                                DocumentTables to) {
  const int64_t entries = to.documents + 1;
  for (int64_t i = global_thread(); i < calls * entries; i += global_threads()) {
    const int64_t call = i / entries, entry = i % entries, at = call * to.stride() + entry;
    const int64_t document = call * to.documents + entry;
    if (entry < to.documents) {
      to.query_lengths[at] = static_cast<int32_t>(documents.queries(document));
      to.key_lengths[at] = static_cast<int32_t>(documents.keys(document));
    }
    if (documents.ends == nullptr) continue;
    const auto first = static_cast<int32_t>(documents.first(document));
    to.qkv_offsets[at] = first * elements.qkv;
    to.out_offsets[at] = first * elements.out;
    to.statistics_offsets[at] = first * elements.statistics;
  }
}

__global__ void seeds_kernel(RandomKey key, DropoutRng rng, int64_t first_head, int64_t total_heads,
                             int64_t calls, int64_t* seeds) {
  key.step = rng.step();
  for (int64_t i = global_thread(); i < calls; i += global_threads()) {
    constexpr int kCallBits = 24;
    const auto head = static_cast<uint64_t>(rng.first_row() * total_heads + first_head);
    const uint4 words = philox_words(key, head << kCallBits | static_cast<uint64_t>(i));
    const uint64_t seed = static_cast<uint64_t>(words.y & 0x7fffffffu) << 32 | words.x;
    seeds[i * kSeedStride] = static_cast<int64_t>(seed);
    seeds[i * kSeedStride + kOffsetInSeeds] = 0;
  }
}

__device__ int64_t place_of(int64_t head, int64_t row, const StatisticsLayout& layout) {
  return row / layout.block * layout.block * layout.heads + head * layout.head_stride +
         row % layout.block * layout.row_stride;
}

__global__ void copy_kernel(const float* from, StatisticsLayout from_layout, float* to,
                            StatisticsLayout to_layout, float of_nothing) {
  const int64_t rows = to_layout.rows;
  for (int64_t i = global_thread(); i < to_layout.heads * rows; i += global_threads()) {
    const int64_t head = i / rows, row = i % rows;
    const float value = from[place_of(head, row, from_layout)];
    to[place_of(head, row, to_layout)] = value == -INFINITY ? of_nothing : value;
  }
}

/// Visits the rows of all documents from `begins` of each (one of the tables) on, a warp per row.
template <typename Visit>
__device__ void for_rows_beyond(const Documents& documents, const DocumentTables& tables,
                                const int32_t* begins, Visit visit) {
  const int64_t warps = global_threads() / kWarpSize;
  for (int64_t i = global_thread() / kWarpSize; i < documents.count * documents.length;
       i += warps) {
    const int64_t document = i / documents.length, t = i % documents.length;
    if (t < begins[tables.place_of(document)] || t >= documents.rows(document)) continue;
    visit(documents.first(document) + t, static_cast<int>(threadIdx.x) % kWarpSize);
  }
}

using Features = Pack<bfloat16, 8>;

__device__ void clear_row(Features* row, int64_t packs, int lane) {
  for (int64_t i = lane; i < packs; i += kWarpSize) row[i] = {};
}

__global__ void clear_rows_kernel(Documents documents, DocumentTables tables, Features* out,
                                  int64_t packs, float* log_sum_exp, StatisticsLayout layout) {
  for_rows_beyond(documents, tables, tables.query_lengths, [=](int64_t row, int lane) {
    clear_row(out + row * packs, packs, lane);
    for (int64_t head = lane; head < layout.heads; head += kWarpSize) {
      log_sum_exp[place_of(head, row, layout)] = -INFINITY;
    }
  });
}

/// The first `query_packs` of the `packs` of a row are queries.
__global__ void clear_gradients_kernel(Documents documents, DocumentTables tables, Features* dqkv,
                                       int64_t packs, int64_t query_packs) {
  for_rows_beyond(documents, tables, tables.query_lengths,
                  [=](int64_t row, int lane) { clear_row(dqkv + row * packs, query_packs, lane); });
  for_rows_beyond(documents, tables, tables.key_lengths, [=](int64_t row, int lane) {
    clear_row(dqkv + row * packs + query_packs, packs - query_packs, lane);
  });
}

LaunchShape a_warp_a_row(const DocumentPlaces& places) {
  return one_dimensional(places.count * places.length * kWarpSize, kBlockThreads);
}

}  // namespace

void describe_documents(const AttentionMask& mask, const DocumentPlaces& places, int64_t calls,
                        const RowElements& elements, const DocumentTables& tables) {
  launch("describe_documents", one_dimensional(calls * (tables.documents + 1), kBlockThreads),
         describe_kernel, Documents(mask, places), calls, elements, tables);
}

void write_dropout_seeds(const AttentionOptions& options, int64_t calls, int64_t* seeds) {
  RandomKey key = options.dropout.key;
  key.purpose = RandomPurpose::cudnn_seeds;
  launch("write_dropout_seeds", one_dimensional(calls, kBlockThreads), seeds_kernel, key,
         rng_of(options.dropout), options.first_head, options.total_heads, calls, seeds);
}

void copy_statistics(const float* from, const StatisticsLayout& from_layout, float* to,
                     const StatisticsLayout& to_layout, float of_nothing) {
  launch("copy_statistics", one_dimensional(to_layout.heads * to_layout.rows, kBlockThreads),
         copy_kernel, from, from_layout, to, to_layout, of_nothing);
}

void clear_blind_rows(const AttentionMask& mask, const DocumentPlaces& places,
                      const DocumentTables& tables, const StatisticsLayout& layout, Tensor out,
                      float* log_sum_exp) {
  launch("clear_blind_rows", a_warp_a_row(places), clear_rows_kernel, Documents(mask, places),
         tables, reinterpret_cast<Features*>(out.raw()),
         out.numel() / layout.rows / kPackSize<bfloat16>, log_sum_exp, layout);
}

void clear_blind_gradients(const AttentionMask& mask, const DocumentPlaces& places,
                           const DocumentTables& tables, int64_t heads, Tensor dqkv) {
  const int64_t packs = dqkv.dim(3) / kPackSize<bfloat16>;
  launch("clear_blind_gradients", a_warp_a_row(places), clear_gradients_kernel,
         Documents(mask, places), tables, reinterpret_cast<Features*>(dqkv.raw()),
         dqkv.dim(2) * packs, heads * packs);
}

}  // namespace tessera::cuda
