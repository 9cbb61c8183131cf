#pragma once

#include <algorithm>
#include <cstring>

#include "core/ops/cpu/attention/attention_segments.h"
#include "core/ops/cpu/attention/attention_tiles.h"
#include "core/ops/cpu/vector_math.h"

namespace tessera::cpu {

/// The part of a mask for the queries of one segment and one head: hidden keys, and additions to
/// scores. Queries and keys are counted from the first key of the segment's document.
class SegmentMask {
 public:
  SegmentMask(const AttentionShape& shape, const AttentionOptions& options, const Segment& segment,
              int64_t head)
      : causal_(options.mask.causal),
        window_(std::min(options.mask.window, shape.keys)),
        dilation_(std::min(options.mask.dilation, std::max<int64_t>(shape.keys, 1))),
        reach_(window_ == 0 ? 0 : (window_ - 1) * dilation_ + 1),
        prefix_(std::min(options.mask.prefix, shape.keys)),
        global_(window_ == 0 ? 0 : std::min(options.mask.global_tokens, shape.keys)),
        seq_(shape.seq),
        end_(segment.keys.size()) {
    if (segment.rows.empty()) return;
    const AttentionMask& mask = options.mask;
    const int64_t b = segment.rows.begin / seq_, t = segment.rows.begin % seq_;
    if (mask.lengths.defined()) {
      const int64_t length = mask.lengths.data<int32_t>()[b];
      end_ = std::clamp<int64_t>(length - t, 0, end_);
    }
    if (mask.hidden_keys.defined()) {
      hidden_keys_ = mask.hidden_keys.data<uint8_t>() + segment.keys.begin;
    }
    // The plane from the segment's first query and key on.
    const auto corner = [&](const Tensor& plane) {
      const int64_t global_head = options.first_head + head;
      if (is_by_position(plane)) {
        return plane.dim(0) == 1 ? 0 : global_head * plane.dim(1) * plane.dim(2);
      }
      int64_t which = 0;
      if (plane.shape().rank() == 4) {
        which = plane.dim(1) == 1 ? b : b * options.total_heads + global_head;
      }
      return (which * seq_ + t) * seq_ + t;
    };
    if (mask.hidden.defined()) {
      hidden_ = mask.hidden.data<uint8_t>() + corner(mask.hidden);
      hidden_stride_ = mask.hidden.dim(-1);
    }
    if (mask.additive.defined()) {
      additive_ = mask.additive.data<float>() + corner(mask.additive);
      additive_stride_ = mask.additive.dim(-1);
    }
    if (const Tensor& bias = options.position_bias; bias.defined()) {
      position_bias_ = bias.data<float>() + head * bias.dim(1) + bias.dim(1) / 2;
    }
  }

  /// A range that contains all keys visible to these queries, by arithmetic alone.
  Range visible_keys(Range queries) const {
    Range keys = not_later(queries);
    if (window_ > 0 && queries.begin >= global_) {
      const Range window = window_of(queries);
      keys = intersect(keys, {global_ > 0 ? 0 : window.begin, window.end});
    }
    return keys.empty() ? Range{} : keys;
  }

  /// Whether the whole tile, which is within visible_keys(), lies between global tokens and the
  /// window, or between the keys that dilation leaves, or one of the masks that are tensors hides
  /// it.
  bool hides_all(Range queries, Range keys) const {
    if (window_ > 0 && std::min(queries.begin, keys.begin) >= global_ &&
        (keys.end <= window_of(queries).begin || is_in_gap(queries, keys))) {
      return true;
    }
    const auto all_set = [&](const uint8_t* hidden) {
      return std::memchr(hidden + keys.begin, 0, static_cast<size_t>(keys.size())) == nullptr;
    };
    if (hidden_keys_ != nullptr && all_set(hidden_keys_)) return true;
    bool hidden = hidden_ != nullptr, additive = additive_ != nullptr;
    for (int64_t t = queries.begin; hidden && t < queries.end; ++t) {
      hidden = all_set(hidden_ + t * hidden_stride_);
    }
    for (int64_t t = queries.begin; additive && t < queries.end; ++t) {
      additive = all_minus_inf(additive_ + t * additive_stride_ + keys.begin, keys.size());
    }
    return hidden || additive;
  }

  /// Adds the position bias and the additive mask to scores[r][c] of query queries.begin + r and
  /// key keys.begin + c, and sets hidden keys and the padding columns to −inf. Rows are kKeyTile
  /// apart.
  void apply(Range queries, Range keys, float* scores) const {
    const int64_t size = keys.size(), padded = round_up(size, kTilePadding);
    if (position_bias_ != nullptr) add_position_bias(queries, keys, scores);
    if (!looks_at_tensors() && size == padded && sees_all(queries, keys)) return;
    for (int64_t r = 0; r < queries.size(); ++r) {
      const int64_t t = queries.begin + r;
      float* row = scores + r * kKeyTile;
      if (additive_ != nullptr) add(additive_ + t * additive_stride_ + keys.begin, size, row);
      if (hidden_ != nullptr) hide(hidden_ + t * hidden_stride_ + keys.begin, size, row);
      if (hidden_keys_ != nullptr) hide(hidden_keys_ + keys.begin, size, row);
      const Range visible = visible_keys({t, t + 1});
      const int64_t begin = std::clamp<int64_t>(visible.begin - keys.begin, 0, padded);
      const int64_t end = std::clamp<int64_t>(visible.end - keys.begin, begin, size);
      std::fill(row, row + begin, kMinusInfinity);
      std::fill(row + end, row + padded, kMinusInfinity);
      if (window_ > 0 && t >= global_) apply_pattern(t, keys.begin, size, row);
    }
  }

 private:
  /// The keys that the causal part and the end of the sequence leave to some of these queries.
  Range not_later(Range queries) const {
    return {0, causal_ ? std::min(end_, std::max(queries.end, prefix_)) : end_};
  }

  /// A range that contains the windows of these queries.
  Range window_of(Range queries) const {
    return {queries.begin - reach_ + 1, queries.end - 1 + reach_};
  }

  /// Whether no distance in the tile is a multiple of the dilation.
  bool is_in_gap(Range queries, Range keys) const {
    const int64_t farthest = queries.end - 1 - keys.begin, nearest = queries.begin - keys.end + 1;
    const int64_t above = (farthest % dilation_ + dilation_) % dilation_;
    return farthest - above < nearest;
  }

  /// Hides keys between global tokens and the window of query t, and those that dilation leaves
  /// out. row[c] is the score of key `first` + c.
  void apply_pattern(int64_t t, int64_t first, int64_t size, float* row) const {
    const int64_t begin = std::clamp<int64_t>(global_ - first, 0, size);
    if (global_ > 0) {
      const int64_t window = t - reach_ + 1 - first;
      std::fill(row + begin, row + std::clamp(window, begin, size), kMinusInfinity);
    }
    if (dilation_ == 1) return;
    for (int64_t c = begin; c < size; ++c) {
      if ((t - first - c) % dilation_ != 0) row[c] = kMinusInfinity;
    }
  }

  /// Keys that query t surely sees, as far as arithmetic says: all of them but global tokens before
  /// a window and what a dilated window shows.
  Range certain_keys(int64_t t) const {
    const Range keys = not_later({t, t + 1});
    if (window_ == 0 || t < global_) return keys;
    if (dilation_ > 1) return {};
    return intersect(keys, window_of({t, t + 1}));
  }

  bool looks_at_tensors() const {
    return hidden_keys_ != nullptr || hidden_ != nullptr || additive_ != nullptr;
  }

  /// Whether arithmetic surely hides nothing of a tile: neither from its first and last query nor
  /// from the first one that is not global. Ranges ascend in between.
  bool sees_all(Range queries, Range keys) const {
    const int64_t last = queries.end - 1;
    for (const int64_t t : {queries.begin, std::clamp(global_, queries.begin, last), last}) {
      const Range certain = certain_keys(t);
      if (keys.begin < certain.begin || certain.end < keys.end) return false;
    }
    return true;
  }

  static bool all_minus_inf(const float* x, int64_t n) {
    int64_t finite = 0;
#pragma omp simd reduction(+ : finite)
    for (int64_t i = 0; i < n; ++i) finite += x[i] != kMinusInfinity;
    return finite == 0;
  }

  /// −inf is assigned, not added: a hidden score may be infinite.
  static void add(const float* additive, int64_t n, float* scores) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      scores[i] = additive[i] == kMinusInfinity ? kMinusInfinity : scores[i] + additive[i];
    }
  }

  void add_position_bias(Range queries, Range keys, float* scores) const {
    for (int64_t r = 0; r < queries.size(); ++r) {
      const float* bias = position_bias_ + keys.begin - (queries.begin + r);
      float* row = scores + r * kKeyTile;
#pragma omp simd
      for (int64_t i = 0; i < keys.size(); ++i) row[i] += bias[i];
    }
  }

  static void hide(const uint8_t* hidden, int64_t n, float* scores) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) scores[i] = hidden[i] != 0 ? kMinusInfinity : scores[i];
  }

  bool causal_;
  int64_t window_;
  int64_t dilation_;
  int64_t reach_;   ///< of the window: keys are less than this apart
  int64_t prefix_;  ///< as in AttentionMask
  int64_t global_;  ///< the same; 0 without a window
  int64_t seq_;
  int64_t end_;  ///< keys from this one on are hidden
  const uint8_t* hidden_keys_ = nullptr;
  const uint8_t* hidden_ = nullptr;  ///< of the segment's first query and key
  const float* additive_ = nullptr;  ///< the same
  int64_t hidden_stride_ = 0;        ///< between rows
  int64_t additive_stride_ = 0;
  const float* position_bias_ = nullptr;  ///< of distance 0
};

}  // namespace tessera::cpu
