#include <algorithm>
#include <cmath>

#include "core/ops/cpu/attention/attention_mask_tiles.h"
#include "core/ops/cpu/attention/attention_segments.h"
#include "core/ops/cpu/attention/attention_tiles.h"
#include "core/ops/cpu/vector_math.h"
#include "core/ops/device_ops.h"
#include "core/threads/parallel_for.h"

namespace tessera::cpu {
namespace {

using Products = TileProducts<float>;

/// The weights of one query tile, rows of as many elements as there are keys; `weights` and `lse`
/// point to the first row.
template <typename T>
void weights_of_tile(const AttentionShape& shape, const AttentionOptions& options,
                     const AttentionRows<const T>& from, const AttentionWork::Item& item,
                     const float* lse, float* weights) {
  const int64_t first = item.segment.rows.begin, first_key = item.segment.keys.begin;
  const Range queries{item.tile * kQueryTile,
                      std::min((item.tile + 1) * kQueryTile, item.segment.rows.size())};
  const int64_t rows = queries.size(), ld = Products::padded(shape.d);
  TileScratch& scratch = TileScratch::of_this_thread();
  scratch.begin(kQueryTile * (ld + kKeyTile) + kKeyTile * ld);
  float* q = scratch.tile(kQueryTile, ld);             // (queries, D)
  float* keys_t = scratch.tile(ld, kKeyTile);          // (D, keys)
  float* scores = scratch.tile(kQueryTile, kKeyTile);  // (queries, keys)
  Products::load_left(from.q + shape.query_offset(first + queries.begin, item.head), shape.q_stride,
                      rows, shape.d, q, ld);

  const SegmentMask mask(shape, options, item.segment, item.head);
  const Range positions = item.segment.positions(queries);
  const Range visible = mask.visible_keys(positions);
  std::fill_n(weights, rows * shape.keys, 0.0f);
  for (int64_t begin = visible.begin / kKeyTile * kKeyTile; begin < visible.end;
       begin += kKeyTile) {
    const Range keys{begin, std::min(begin + kKeyTile, visible.end)};
    if (mask.hides_all(positions, keys)) continue;
    const T* k = from.kv + shape.key_offset(first_key + keys.begin, item.head);
    Products::load_right_transposed(k, shape.kv_stride, keys.size(), shape.d, keys_t, kKeyTile);
    Products::multiply(rows, keys.size(), shape.d, Products::left(q, ld), keys_t, kKeyTile, scores,
                       kKeyTile, false);
    scale_tile(scores, kKeyTile, rows, keys.size(), options.scale);
    mask.apply(positions, keys, scores);
    for (int64_t r = 0; r < rows; ++r) {
      // A fully masked row has only scores of −inf and keeps its zeros.
      const float reference = std::isinf(lse[r]) ? 0.0f : lse[r];
      float* to = weights + r * shape.keys + first_key % shape.keys + keys.begin;
      for (int64_t c = 0; c < keys.size(); ++c) {
        to[c] = vec::exp(scores[r * kKeyTile + c] - reference);
      }
    }
  }
}

}  // namespace

void attention_weights(const Tensor& qkv, const Tensor& log_sum_exp,
                       const AttentionOptions& options, Tensor weights) {
  const AttentionShape shape(qkv, options);
  const AttentionWork work(shape, options);
  dispatch_float(qkv.dtype(), [&]<typename T>() {
    const AttentionRows<const T> from(shape, qkv, options.memory.key_values);
    parallel_for_each(work.tiles(), [&](int64_t i) {
      const AttentionWork::Item item = work.tile(i);
      const int64_t row = item.segment.rows.begin + item.tile * kQueryTile;
      const int64_t at = shape.log_sum_exp_offset(row, item.head);
      weights_of_tile(shape, options, from, item, log_sum_exp.data<float>() + at,
                      weights.data<float>() + at * shape.keys);
    });
  });
}

}  // namespace tessera::cpu
