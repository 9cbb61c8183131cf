#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/checked.h"
#include "core/ops/attention.h"
#include "core/ops/cpu/attention/attention_tiles.h"
#include "core/range.h"

namespace tessera::cpu {

/// Consecutive queries of a document, or of a sequence if there are no documents, and the keys of
/// the document. All queries of a document are one segment, unless those of a context rank have
/// gaps.
struct Segment {
  Range rows;           ///< of queries, among all B × T
  int64_t place;        ///< of the first row, in the padded batch (PaddedRows)
  Range keys;           ///< of keys
  int64_t key_place;    ///< of the first key
  int64_t first_query;  ///< position of the first row, counted like keys from the first

  /// Positions of rows that are counted from the segment's first.
  Range positions(Range queries) const {
    return {first_query + queries.begin, first_query + queries.end};
  }
};

/// The work of one call: every query tile of every head of every segment, or every group of heads
/// that share a key and a value, of every document. Tiles are counted from a segment's first row,
/// so neighboring segments do not change them.
class AttentionWork {
 public:
  struct Item {
    Segment segment;
    int64_t head;
    int64_t tile;
  };
  struct Group {
    Range segments;  ///< of one document
    int64_t head;    ///< the first of the group
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
        positions_(ids_or_null(options.memory.positions)),
        count_(ends_ == nullptr ? shape.batch : options.mask.documents.numel() - 1),
        scratch_(scratch()) {
    scratch_.first_tiles.assign(1, 0);
    scratch_.runs.clear();
    scratch_.first_runs.clear();
    for (int64_t i = 0; i < count_; ++i) add_document(i);
    scratch_.first_runs.push_back(std::ssize(scratch_.runs));
  }

  int64_t documents() const { return count_; }
  /// The keys of a document; without a memory, its rows.
  Range keys(int64_t document) const {
    return has_memory_ ? Range{key_ends_[document], key_ends_[document + 1]} : rows(document);
  }
  /// A document without queries has one segment without rows.
  Segment segment(int64_t i) const {
    const Run& run = scratch_.runs[static_cast<size_t>(i)];
    const Range of = keys(run.document);
    const int64_t place = place_of(run.rows, places_);
    return {run.rows, place, of, has_memory_ ? place_of(of, key_places_) : place, run.first_query};
  }

  /// Documents × groups.
  int64_t groups() const { return count_ * groups_; }
  Group group(int64_t i) const {
    const auto first = scratch_.first_runs.begin() + i / groups_;
    return {{first[0], first[1]}, i % groups_ * in_group_};
  }

  /// Query tiles × heads.
  int64_t tiles() const { return scratch_.first_tiles.back() * heads_; }
  Item tile(int64_t i) const {
    const std::vector<int64_t>& first_tiles = scratch_.first_tiles;
    const auto after = std::upper_bound(first_tiles.begin(), first_tiles.end(), i / heads_);
    const int64_t s = after - first_tiles.begin() - 1;
    const int64_t first = first_tiles[static_cast<size_t>(s)];
    const int64_t tiles = *after - first;
    const int64_t within = i - first * heads_;
    return {segment(s), within / tiles, within % tiles};
  }

 private:
  struct Run {
    Range rows;
    int64_t document, first_query;
  };
  struct Scratch {
    std::vector<int64_t> first_tiles;  // (segments + 1), cumulative
    std::vector<Run> runs;             // (segments)
    std::vector<int64_t> first_runs;   // (documents + 1), cumulative
  };

  /// Whether a query is the next one of its document after the query before it.
  bool follows(int64_t row) const {
    return (positions_ == nullptr || positions_[row] == positions_[row - 1] + 1) &&
           (places_ == nullptr || places_[row] == places_[row - 1] + 1);
  }

  void add_document(int64_t i) {
    scratch_.first_runs.push_back(std::ssize(scratch_.runs));
    Range rest = rows(i);
    do {
      int64_t end = rest.end;
      if (has_memory_) {  // whose queries may have gaps
        end = std::min(rest.begin + 1, rest.end);
        while (end < rest.end && follows(end)) ++end;
      }
      const bool has_position = positions_ != nullptr && !rest.empty();
      const Run run{{rest.begin, end}, i, has_position ? positions_[rest.begin] : 0};
      scratch_.runs.push_back(run);
      scratch_.first_tiles.push_back(scratch_.first_tiles.back() +
                                     ceil_div(run.rows.size(), kQueryTile));
      rest.begin = end;
    } while (!rest.empty());
  }

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
  static Scratch& scratch() {
    thread_local Scratch scratch;
    return scratch;
  }

  int64_t seq_, heads_, groups_, in_group_;
  const int32_t* ends_;
  const int32_t* places_;
  bool has_memory_;
  const int32_t* key_ends_;
  const int32_t* key_places_;
  const int32_t* positions_;
  int64_t count_;  // of documents
  Scratch& scratch_;
};

}  // namespace tessera::cpu
