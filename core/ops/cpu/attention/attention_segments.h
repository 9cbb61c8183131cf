#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/checked.h"
#include "core/ops/attention.h"
#include "core/ops/cpu/attention/attention_tiles.h"
#include "core/range.h"

namespace tessera::cpu {

/// Rows that see only each other: a document, or a sequence if there are no documents. In
/// cross-attention, the queries and keys of a document.
struct Segment {
  Range rows;         ///< of queries, among all B × T
  int64_t place;      ///< of the first row, in the padded batch (PaddedRows)
  Range keys;         ///< of keys
  int64_t key_place;  ///< of the first key
};

/// The work of one call: every query tile of every head of every segment, or every group of heads
/// that share a key and a value. Tiles are counted from a segment's first row, so neighboring
/// segments do not change them.
class AttentionWork {
 public:
  struct Item {
    Segment segment;
    int64_t head;
    int64_t tile;
  };

  AttentionWork(const AttentionShape& shape, const AttentionOptions& options)
      : seq_(shape.seq),
        heads_(shape.heads),
        groups_(shape.kv_heads),
        in_group_(shape.in_group),
        ends_(ids_or_null(options.mask.documents)),
        places_(ids_or_null(options.padded_rows.index)),
        has_memory_(options.memory.defined()),
        key_ends_(ids_or_null(options.memory.documents)),
        key_places_(ids_or_null(options.memory.padded_rows.index)),
        count_(ends_ == nullptr ? shape.batch : options.mask.documents.numel() - 1),
        first_tiles_(scratch()) {
    first_tiles_.assign(1, 0);
    for (int64_t i = 0; i < count_; ++i) {
      first_tiles_.push_back(first_tiles_.back() + ceil_div(rows(i).size(), kQueryTile));
    }
  }

  int64_t segments() const { return count_; }
  Segment segment(int64_t i) const {
    const Range range = rows(i);
    const int64_t place = place_of(range, places_);
    if (!has_memory_) return {range, place, range, place};
    const Range keys{key_ends_[i], key_ends_[i + 1]};
    return {range, place, keys, place_of(keys, key_places_)};
  }

  /// Segments × groups, for work on whole segments. The item's head is the first of its group.
  int64_t groups_of_segments() const { return count_ * groups_; }
  Item group(int64_t i) const { return {segment(i / groups_), i % groups_ * in_group_, 0}; }

  /// Query tiles × heads.
  int64_t tiles() const { return first_tiles_.back() * heads_; }
  Item tile(int64_t i) const {
    const auto after = std::upper_bound(first_tiles_.begin(), first_tiles_.end(), i / heads_);
    const int64_t s = after - first_tiles_.begin() - 1;
    const int64_t first = first_tiles_[static_cast<size_t>(s)];
    const int64_t tiles = *after - first;
    const int64_t within = i - first * heads_;
    return {segment(s), within / tiles, within % tiles};
  }

 private:
  static const int32_t* ids_or_null(const Tensor& ids) {
    return ids.defined() ? ids.data<int32_t>() : nullptr;
  }
  static int64_t place_of(Range range, const int32_t* places) {
    return places != nullptr && !range.empty() ? places[range.begin] : range.begin;
  }
  Range rows(int64_t i) const {
    if (ends_ == nullptr) return {i * seq_, (i + 1) * seq_};
    return {ends_[i], ends_[i + 1]};
  }

  /// Belongs to the calling thread and only grows, so steps do not allocate.
  static std::vector<int64_t>& scratch() {
    thread_local std::vector<int64_t> first_tiles;
    return first_tiles;
  }

  int64_t seq_, heads_, groups_, in_group_;
  const int32_t* ends_;
  const int32_t* places_;
  bool has_memory_;
  const int32_t* key_ends_;
  const int32_t* key_places_;
  int64_t count_;
  std::vector<int64_t>& first_tiles_;  // (segments + 1), cumulative
};

}  // namespace tessera::cpu
