#include <algorithm>
#include <limits>
#include <vector>

#include "core/ops/cpu/attention/attention_mask_tiles.h"
#include "core/ops/cpu/attention/attention_segments.h"
#include "core/ops/cpu/attention/attention_tiles.h"
#include "core/ops/cpu/vector_math.h"
#include "core/ops/device_ops.h"
#include "core/threads/parallel_for.h"

namespace tessera::cpu {
namespace {

/// A thread's tiles for the gradients of segments of up to `length` queries. If the sums of
/// `keys_length` keys are of several segments or heads, they have to wait for all of them.
template <typename Element>
struct BackwardTiles {
  int64_t ld;
  float *dq, *delta;             // (T, D), (T)
  Element *queries, *douts;      // (T, D)
  Element *queries_t, *douts_t;  // for TransposedLeft
  float *weights, *dscores;      // (queries, keys)
  Element *left, *right;         // (queries, keys): weights or dscores as an operand
  Element *keys, *keys_t;        // (keys, D), (D, keys)
  Element* values_t;             // (D, keys)
  float *dk_t, *dv_t;            // (D, keys) for each tile of keys
  int64_t key_tile_stride;       // of dk_t and dv_t

  BackwardTiles(const AttentionShape& shape, int64_t length, int64_t keys_length, bool waits)
      : ld(TileProducts<Element>::padded(shape.d)) {
    const int64_t key_tiles = waits ? ceil_div(keys_length, kKeyTile) : 1;
    const int64_t rows = round_up(length, kQueryTile);
    const int64_t transposed = TransposedLeft<Element>::elements(length, ld);
    using Scratch = TileScratch;
    Scratch& scratch = Scratch::of_this_thread();
    scratch.begin(Scratch::floats<float>(rows, ld + 1) + 2 * Scratch::floats<Element>(rows, ld) +
                  2 * Scratch::floats<Element>(transposed, 1) +
                  2 * Scratch::floats<float>(kQueryTile, kKeyTile) +
                  2 * Scratch::floats<Element>(kQueryTile, kKeyTile) +
                  3 * Scratch::floats<Element>(kKeyTile, ld) +
                  2 * Scratch::floats<float>(key_tiles * ld, kKeyTile) + kTilePadding);
    dq = scratch.tile(rows, ld);
    delta = scratch.tile(rows, 1);
    queries = scratch.tile<Element>(rows, ld);
    douts = scratch.tile<Element>(rows, ld);
    queries_t = scratch.tile<Element>(transposed, 1);
    douts_t = scratch.tile<Element>(transposed, 1);
    weights = scratch.tile(kQueryTile, kKeyTile);
    dscores = scratch.tile(kQueryTile, kKeyTile);
    left = scratch.tile<Element>(kQueryTile, kKeyTile);
    right = scratch.tile<Element>(kQueryTile, kKeyTile);
    keys = scratch.tile<Element>(kKeyTile, ld);
    keys_t = scratch.tile<Element>(ld, kKeyTile);
    values_t = scratch.tile<Element>(ld, kKeyTile);
    dk_t = scratch.tile(key_tiles * ld, kKeyTile);
    dv_t = scratch.tile(key_tiles * ld, kKeyTile);
    key_tile_stride = key_tiles == 1 ? 0 : ld * kKeyTile;
  }
};

/// The tensors of a call.
template <typename T>
struct BackwardTensors {
  AttentionRows<const T> from;
  const T *out, *dout;
  const float* log_sum_exp;
  AttentionRows<T> to;
};

/// The first and the last of the heads and segments over which gradients of keys, or of the
/// position bias, are summed.
struct PlaceInSum {
  bool first, last;
};

/// The gradient of one head of a segment; rows and keys are counted from the segment's first.
/// With S = scale × q kᵀ, P = softmax(S), Z the dropout factors and O = (P ∘ Z) v:
///     dv = (P ∘ Z)ᵀ dO,  dP = Z ∘ (dO vᵀ),  dS = P ∘ (dP − rowsum(dO ∘ O)),
///     dq = scale × dS k,  dk = scale × dSᵀ q.
/// dv and dk are summed as dvᵀ = dOᵀ (P ∘ Z) and dkᵀ = qᵀ dS, so no tile is transposed in between.
/// The first of them clears these sums, and the last stores them.
template <typename T, typename Element>
class HeadBackward {
  using Products = TileProducts<Element>;
  using Tiles = BackwardTiles<Element>;

 public:
  HeadBackward(const AttentionShape& shape, const AttentionOptions& options,
               const BackwardTensors<T>& of, const Segment& segment, int64_t h, PlaceInSum place,
               float* dbias, const Tiles& tiles)
      : shape_(shape),
        options_(options),
        mask_(shape, options, segment, h),
        dropout_(options, shape, segment.place, segment.key_place, h),
        length_(segment.rows.size()),
        keys_length_(segment.keys.size()),
        segment_(segment),
        place_(place),
        dbias_(dbias),
        tiles_(tiles),
        ld_(tiles.ld) {
    const int64_t row = segment.rows.begin, key = segment.keys.begin;
    q_ = of.from.q + shape.query_offset(row, h);
    k_ = of.from.kv + shape.key_offset(key, h);
    v_ = of.from.kv + shape.value_offset(key, h);
    out_ = of.out + shape.out_offset(row, h);
    dout_ = of.dout + shape.out_offset(row, h);
    lse_ = of.log_sum_exp + shape.log_sum_exp_offset(row, h);
    dq_out_ = of.to.q + shape.query_offset(row, h);
    dk_out_ = of.to.kv + shape.key_offset(key, h);
    dv_out_ = of.to.kv + shape.value_offset(key, h);

    Products::load_left(q_, shape.q_stride, length_, shape.d, tiles.queries, ld_);
    Products::load_left(dout_, shape.out_stride, length_, shape.d, tiles.douts, ld_);
    queries_t_.load(q_, shape.q_stride, length_, shape.d, tiles.queries, ld_, tiles.queries_t);
    douts_t_.load(dout_, shape.out_stride, length_, shape.d, tiles.douts, ld_, tiles.douts_t);
  }

  void run() {
    std::fill_n(tiles_.dq, length_ * ld_, 0.0f);
    sum_dout_times_out();
    for (int64_t begin = 0; begin < keys_length_; begin += kKeyTile) {
      key_tile({begin, std::min(begin + kKeyTile, keys_length_)});
    }
    Products::store(tiles_.dq, ld_, length_, shape_.d, options_.scale, dq_out_, shape_.q_stride);
  }

 private:
  void sum_dout_times_out() {
    for (int64_t t = 0; t < length_; ++t) {
      const T* a = dout_ + t * shape_.out_stride;
      const T* b = out_ + t * shape_.out_stride;
      float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < shape_.d; ++i) {
        sum += static_cast<float>(a[i]) * static_cast<float>(b[i]);
      }
      tiles_.delta[t] = sum;
    }
  }

  void key_tile(Range keys) {
    const int64_t from = keys.begin * shape_.kv_stride;
    bool loaded = false;
    float* dk_t = tiles_.dk_t + keys.begin / kKeyTile * tiles_.key_tile_stride;
    float* dv_t = tiles_.dv_t + keys.begin / kKeyTile * tiles_.key_tile_stride;
    if (place_.first) {
      std::fill_n(dk_t, ld_ * kKeyTile, 0.0f);
      std::fill_n(dv_t, ld_ * kKeyTile, 0.0f);
    }
    for (int64_t begin = 0; begin < length_; begin += kQueryTile) {
      const Range queries{begin, std::min(begin + kQueryTile, length_)};
      const Range visible = mask_.visible_keys(segment_.positions(queries));
      const Range seen{keys.begin, std::min(keys.end, visible.end)};
      if (seen.empty() || visible.begin >= keys.end ||
          mask_.hides_all(segment_.positions(queries), seen)) {
        continue;
      }
      if (!loaded) load_keys(keys);
      loaded = true;
      tile(queries, seen, dk_t, dv_t);
    }
    if (!place_.last) return;
    Products::store_transposed(dk_t, kKeyTile, keys.size(), shape_.d, options_.scale,
                               dk_out_ + from, shape_.kv_stride);
    Products::store_transposed(dv_t, kKeyTile, keys.size(), shape_.d, 1.0f, dv_out_ + from,
                               shape_.kv_stride);
  }

  void load_keys(Range keys) {
    const int64_t stride = shape_.kv_stride, from = keys.begin * stride;
    Products::load_right(k_ + from, stride, keys.size(), shape_.d, tiles_.keys, ld_);
    Products::load_right_transposed(k_ + from, stride, keys.size(), shape_.d, tiles_.keys_t,
                                    kKeyTile);
    Products::load_right_transposed(v_ + from, stride, keys.size(), shape_.d, tiles_.values_t,
                                    kKeyTile);
  }

  void tile(Range queries, Range keys, float* dk_t, float* dv_t) {
    const int64_t rows = queries.size(), cols = round_up(keys.size(), kTilePadding);
    const int64_t first = queries.begin * ld_, d = shape_.d;
    Products::multiply(rows, cols, d, Products::left(tiles_.queries + first, ld_), tiles_.keys_t,
                       kKeyTile, tiles_.weights, kKeyTile, false);
    scale_tile(tiles_.weights, kKeyTile, rows, cols, options_.scale);
    mask_.apply(segment_.positions(queries), keys, tiles_.weights);
    Products::multiply(rows, cols, d, Products::left(tiles_.douts + first, ld_), tiles_.values_t,
                       kKeyTile, tiles_.dscores, kKeyTile, false);
    for (int64_t r = 0; r < rows; ++r) row_gradient(queries.begin + r, r, keys);
    if (dbias_ != nullptr) add_to_bias(queries, keys);
    const Element* weights = Products::as_right(tiles_.weights, rows, cols, kKeyTile, tiles_.right);
    Products::multiply(d, cols, rows, douts_t_.from(queries.begin), weights, kKeyTile, dv_t,
                       kKeyTile, true);
    const Element* dscores = Products::as_right(tiles_.dscores, rows, cols, kKeyTile, tiles_.right);
    Products::multiply(d, cols, rows, queries_t_.from(queries.begin), dscores, kKeyTile, dk_t,
                       kKeyTile, true);
    dscores = Products::as_left(tiles_.dscores, rows, cols, kKeyTile, tiles_.left);
    Products::multiply(rows, ld_, keys.size(), Products::left(dscores, kKeyTile), tiles_.keys, ld_,
                       tiles_.dq + first, ld_, true);
  }

  /// Turns `weights` from scores into P ∘ Z, and `dscores` from dO vᵀ into dS. dS is zero where P
  /// is, even if dO vᵀ is infinite: a hidden value may be anything.
  void row_gradient(int64_t t, int64_t r, Range keys) {
    const int64_t cols = round_up(keys.size(), kTilePadding);
    float* weights = tiles_.weights + r * kKeyTile;
    float* dscores = tiles_.dscores + r * kKeyTile;
    // A fully masked row has no gradient: any finite reference makes its weights exp(−inf) = 0.
    const bool blind = lse_[t] == -std::numeric_limits<float>::infinity();
    const float lse = blind ? 0.0f : lse_[t];
    const float delta = tiles_.delta[t];
    if (!dropout_.active()) {
#pragma omp simd
      for (int64_t c = 0; c < cols; ++c) {
        weights[c] = vec::exp_below(weights[c] - lse);
        dscores[c] = weights[c] == 0.0f ? 0.0f : weights[c] * (dscores[c] - delta);
      }
      return;
    }
    float factors[kKeyTile] = {};
    dropout_.factors(t, keys.begin, keys.size(), factors);
#pragma omp simd
    for (int64_t c = 0; c < cols; ++c) {
      const float weight = vec::exp_below(weights[c] - lse);
      weights[c] = weight * factors[c];
      dscores[c] = weight == 0.0f ? 0.0f : weight * (dscores[c] * factors[c] - delta);
    }
  }

  /// Adds dS along its diagonals.
  void add_to_bias(Range queries, Range keys) {
    for (int64_t r = 0; r < queries.size(); ++r) {
      const float* from = tiles_.dscores + r * kKeyTile;
      float* to =
          dbias_ + keys_length_ - 1 + keys.begin - (segment_.first_query + queries.begin + r);
#pragma omp simd
      for (int64_t c = 0; c < keys.size(); ++c) to[c] += from[c];
    }
  }

  const AttentionShape& shape_;
  const AttentionOptions& options_;
  SegmentMask mask_;
  TileDropout dropout_;
  int64_t length_, keys_length_;
  Segment segment_;
  PlaceInSum place_;
  float* dbias_;  // (2 keys − 1), of the document's distances; nullptr if not needed
  const Tiles& tiles_;
  int64_t ld_;
  const T *q_, *k_, *v_, *out_, *dout_;
  const float* lse_;
  T *dq_out_, *dk_out_, *dv_out_;
  TransposedLeft<Element> queries_t_, douts_t_;  // (D, T)
};

/// The gradient of the position bias by distance, for each head of each document: documents run in
/// parallel, and are added in order afterwards.
class BiasGradients {
 public:
  BiasGradients(const AttentionShape& shape, const Tensor& sum)
      : heads_(shape.heads), sum_(sum), parts_(scratch()) {
    if (!sum.defined()) return;
    const auto floats = static_cast<size_t>(2 * shape.batch * shape.keys * heads_);
    if (parts_.size() < floats) parts_.resize(floats);
  }

  /// Of the document with these keys.
  float* of(Range keys, int64_t h) const {
    if (!sum_.defined()) return nullptr;
    return parts_.data() + 2 * (keys.begin * heads_ + h * keys.size());
  }
  void clear(Range keys, int64_t h) const {
    if (sum_.defined() && !keys.empty()) std::fill_n(of(keys, h), 2 * keys.size() - 1, 0.0f);
  }

  void add(const AttentionWork& work) const {
    if (!sum_.defined() || heads_ == 0) return;
    const int64_t columns = sum_.dim(1);
    parallel_for_each(heads_, [&](int64_t h) {
      for (int64_t i = 0; i < work.documents(); ++i) {
        const Range keys = work.keys(i);
        const int64_t length = keys.size();
        if (length == 0) continue;
        const float* from = of(keys, h);
        float* to = sum_.data<float>() + h * columns + columns / 2 - (length - 1);
#pragma omp simd
        for (int64_t d = 0; d < 2 * length - 1; ++d) to[d] += from[d];
      }
    });
  }

 private:
  /// Belongs to the calling thread and only grows, so steps do not allocate.
  static std::vector<float>& scratch() {
    thread_local std::vector<float> parts;
    return parts;
  }

  int64_t heads_;
  Tensor sum_;                 // (Hl, 2R − 1)
  std::vector<float>& parts_;  // (documents, Hl, 2 keys − 1)
};

}  // namespace

void attention_backward(const Tensor& dout, const Tensor& qkv, const Tensor& out,
                        const Tensor& log_sum_exp, const AttentionOptions& given, Tensor dqkv,
                        Tensor dposition_bias, Tensor dkey_values) {
  AttentionOptions options = given;
  options.dropout = given.dropout.resolved();
  const AttentionShape shape(qkv, options);
  const AttentionWork work(shape, options);
  const BiasGradients bias(shape, dposition_bias);
  dispatch_tiles(qkv.dtype(), [&]<typename T, typename Element>() {
    const BackwardTensors<T> of{{shape, qkv, options.memory.key_values},
                                out.data<T>(),
                                dout.data<T>(),
                                log_sum_exp.data<float>(),
                                {shape, dqkv, dkey_values}};
    parallel_for_each(work.groups(), [&](int64_t i) {
      const AttentionWork::Group group = work.group(i);
      const Range keys = work.segment(group.segments.begin).keys;
      int64_t longest = 0;
      for (int64_t s = group.segments.begin; s < group.segments.end; ++s) {
        longest = std::max(longest, work.segment(s).rows.size());
      }
      if (longest == 0 && keys.empty()) return;
      [[maybe_unused]] const typename TileProducts<Element>::Scope scope;
      const int64_t parts = group.segments.size() * shape.in_group;
      const BackwardTiles<Element> tiles(shape, longest, keys.size(), parts > 1);
      for (int64_t part = 0; part < parts; ++part) {
        const int64_t h = group.head + part / group.segments.size();
        const int64_t s = group.segments.begin + part % group.segments.size();
        if (s == group.segments.begin) bias.clear(keys, h);
        const PlaceInSum place{part == 0, part + 1 == parts};
        HeadBackward<T, Element>(shape, options, of, work.segment(s), h, place, bias.of(keys, h),
                                 tiles)
            .run();
      }
    });
  });
  bias.add(work);
}

}  // namespace tessera::cpu
