#pragma once

#include "core/cuda/device_code.h"
#include "core/cuda/philox.h"
#include "core/ops/cuda/attention/attention_arguments.h"

namespace tessera::cuda {

inline constexpr float kMinusInfinity = -__builtin_huge_valf();

/// A half-open range of positions of a sequence.
struct Positions {
  int begin, end;
};

/// Bit i: whether byte i of a word is at least that of `threshold`.
__device__ inline uint32_t bytes_at_least(uint32_t word, uint32_t threshold) {
  constexpr uint32_t kHigh = 0x80808080u;
  // The high bit of each byte of `low` compares the lower seven bits, without a borrow from the
  // next byte. The high bits of the operands decide if they differ.
  const uint32_t low = (word | kHigh) - (threshold & ~kHigh);
  const uint32_t at_least = ((word & ~threshold) | (~(word ^ threshold) & low)) & kHigh;
  return (at_least >> 7) * 0x01020408u >> 24;  // moves bits 0, 8, 16, 24 to 24, 25, 26, 27
}

/// The columns that a row of a mask with a pattern may see: those of the first range that are a
/// multiple of the dilation apart from the row, and all of the second.
struct PatternColumns {
  Positions dilated, all;
  int origin;  ///< the first key of the row's document, where planes by position begin
};

/// Mask and dropout of one head of one sequence, whose positions are counted from its first. With
/// AttentionForm::runs, queries and keys are counted apart, and a query's place is the key of the
/// same token: distances are those of places.
template <AttentionForm kForm>
class HeadMask {
 public:
  static constexpr bool kIsCross = kForm == AttentionForm::cross;
  static constexpr bool kHasRuns = kForm == AttentionForm::runs;
  static constexpr bool kHasPattern = kForm == AttentionForm::pattern || kHasRuns;
  /// Whether mask_scores() adds a position bias. With a pattern, additive() includes it if there is
  /// one.
  static constexpr bool kHasBias = kForm == AttentionForm::bias;

  __device__ HeadMask(const AttentionArguments& arguments, int b, int h)
      : a_(arguments),
        b_(b),
        h_(h),
        hidden_keys_(a_.hidden_keys == nullptr ? nullptr
                                               : a_.hidden_keys + static_cast<int64_t>(b) * a_.seq),
        hidden_(plane_of(a_.hidden)),
        additive_(plane_of(a_.additive)),
        drop_step_(a_.drops ? a_.dropout_rng.step() : 0),
        first_row_of_drops_(a_.drops ? a_.dropout_rng.first_row() : 0) {}

  /// A range of keys that contains all keys visible to query t, from arithmetic and the documents.
  __device__ Positions keys_of(int t) const {
    if (t >= a_.seq) return {0, 0};
    Positions keys = kIsCross ? memory_of(t) : document_of(t);
    if (a_.lengths != nullptr) keys.end = min(keys.end, a_.lengths[b_]);
    if (a_.causal) keys.end = min(keys.end, t + 1);
    return within_window(t, keys);
  }

  /// A range of queries that contains all queries that see key s: the same pairs as keys_of.
  __device__ Positions queries_of(int s) const {
    if constexpr (kIsCross) return queries_of_memory(s);
    if (s >= a_.seq || (a_.lengths != nullptr && s >= a_.lengths[b_])) return {0, 0};
    Positions queries = document_of(s);
    if (a_.causal) queries.begin = max(queries.begin, s);
    return within_window(s, queries);
  }

  /// The keys of query `t` in a mask with a pattern.
  __device__ PatternColumns pattern_keys_of(int t) const {
    if (t >= a_.seq) return {{0, 0}, {0, 0}, 0};
    const Positions document = kHasRuns ? memory_of(t) : document_of(t);
    const int place = place_of(t, document.begin);
    Positions keys = document;
    if (a_.lengths != nullptr) keys.end = min(keys.end, a_.lengths[b_]);
    if (a_.causal) keys.end = min(keys.end, max(place + 1, document.begin + a_.prefix));
    if (a_.window == 0 || place < document.begin + a_.global_tokens) {
      return {{0, 0}, keys, document.begin};
    }
    const Positions global{document.begin, min(document.begin + a_.global_tokens, keys.end)};
    return {within_reach(place, keys), global, document.begin};
  }
  __device__ PatternColumns pattern_queries_of(int s) const {
    if constexpr (kHasRuns) {
      if (s >= a_.keys) return {{0, 0}, {0, 0}, 0};
      const int i = document_number(a_.key_documents, s);
      const Positions document{a_.key_documents[i], a_.key_documents[i + 1]};
      const PatternColumns places = pattern_queries_of(s, document);
      return {rows_at(i, document, places.dilated), rows_at(i, document, places.all),
              document.begin};
    }
    if (s >= a_.seq || (a_.lengths != nullptr && s >= a_.lengths[b_])) {
      return {{0, 0}, {0, 0}, 0};
    }
    return pattern_queries_of(s, document_of(s));
  }
  __device__ int dilation() const { return a_.dilation; }

  /// The place of query t, whose document's first key is `origin`.
  __device__ int place_of(int t, int origin) const {
    return kHasRuns ? origin + a_.positions[t] : t;
  }
  __device__ int place_of(int t) const { return place_of(t, kHasRuns ? memory_of(t).begin : 0); }

  /// Whether the mask has parts that keys_of does not cover.
  __device__ bool looks_at_tensors() const { return hidden_keys_ != nullptr || looks_at_planes(); }
  __device__ bool looks_at_planes() const { return hidden_ != nullptr || additive_ != nullptr; }
  __device__ bool adds() const {
    return additive_ != nullptr || (kHasPattern && a_.position_bias != nullptr);
  }

  __device__ bool shows_key(int s) const {
    return s < (has_memory(kForm) ? a_.keys : a_.seq) &&
           (hidden_keys_ == nullptr || hidden_keys_[s] == 0);
  }
  /// `origin` is PatternColumns::origin of the row among t and s. Any value if they are of
  /// different documents.
  __device__ bool planes_show(int t, int s, int origin) const {
    if (t >= a_.seq || s >= (kHasRuns ? a_.keys : a_.seq)) return false;
    if constexpr (kHasPattern) {
      t = place_of(t, origin);
      if (hidden_ != nullptr && is_within(a_.hidden, t, s, origin) &&
          hidden_[place_in(a_.hidden, t, s, origin)] != 0) {
        return false;
      }
      return additive_ == nullptr || !is_within(a_.additive, t, s, origin) ||
             additive_[place_in(a_.additive, t, s, origin)] != kMinusInfinity;
    }
    const int64_t at = static_cast<int64_t>(t) * a_.seq + s;
    if (hidden_ != nullptr && hidden_[at] != 0) return false;
    return additive_ == nullptr || additive_[at] != kMinusInfinity;
  }
  /// The additive mask of a visible pair.
  __device__ float additive(int t, int s, int origin) const {
    if constexpr (kHasPattern) {
      t = place_of(t, origin);
      const float bias = a_.position_bias == nullptr ? 0.0f : position_bias(s - t);
      if (additive_ == nullptr) return bias;
      return bias + additive_[place_in(a_.additive, t, s, origin)];
    }
    return additive_[static_cast<int64_t>(t) * a_.seq + s];
  }

  /// The position bias of a key `distance` after its query, if there is one.
  __device__ float position_bias(int distance) const {
    return a_.position_bias[h_ * a_.position_bias_stride + distance];
  }

  __device__ bool drops() const { return a_.drops; }
  __device__ float drop_factor() const { return a_.drops ? a_.drop_factor : 1.0f; }

  /// The global index of the weight of query t and key s is this plus s, for keys that t sees: the
  /// rows of a document are consecutive in the padded batch.
  __device__ uint64_t weights_of(int t) const {
    int sequence = b_, position = t;
    if (a_.places != nullptr && t < a_.seq) {
      const int place = a_.places[static_cast<int64_t>(b_) * a_.seq + t];
      sequence = place / a_.place_seq;
      position = place % a_.place_seq;
    }
    const int64_t head = (first_row_of_drops_ + sequence) * a_.total_heads + a_.first_head + h_;
    const int64_t row_of_weights = head * a_.place_seq + position;
    if constexpr (has_memory(kForm)) {
      return static_cast<uint64_t>(row_of_weights * a_.key_place_seq + key_position_minus_row(t));
    }
    return static_cast<uint64_t>(row_of_weights * a_.place_seq + position - t);
  }

  /// Bit i: whether dropout keeps the weight with global index first + i.
  __device__ uint32_t kept(uint64_t first) const {
    const RandomKey key = {a_.drop_key.seed, a_.drop_key.purpose, a_.drop_key.id, drop_step_};
    const auto skip = static_cast<uint32_t>(first % 16);
    uint32_t bits = kept_block(key, first / 16) >> skip | kept_block(key, first / 16 + 1)
                                                              << (16 - skip);
    if (skip != 0) bits |= kept_block(key, first / 16 + 2) << (32 - skip);
    return bits;
  }

 private:
  /// The bits of the 16 weights whose bytes are one Philox block.
  __device__ uint32_t kept_block(const RandomKey& key, uint64_t block) const {
    const uint4 words = philox_words(key, a_.drop_rounds, block);
    const uint32_t threshold = 0x01010101u * a_.drop_threshold;
    return bytes_at_least(words.x, threshold) | bytes_at_least(words.y, threshold) << 4 |
           bytes_at_least(words.z, threshold) << 8 | bytes_at_least(words.w, threshold) << 12;
  }

  template <typename T>
  __device__ const T* plane_of(const MaskPlane<T>& plane) const {
    if (plane.data == nullptr) return nullptr;
    return plane.data + b_ * plane.batch_stride + h_ * plane.head_stride;
  }

  /// Whether a plane has an element for a pair: if it is by position, those of one document.
  template <typename T>
  __device__ static bool is_within(const MaskPlane<T>& plane, int t, int s, int origin) {
    if (plane.length == 0) return true;
    const auto end = static_cast<unsigned>(plane.length);
    return static_cast<unsigned>(t - origin) < end && static_cast<unsigned>(s - origin) < end;
  }
  template <typename T>
  __device__ int64_t place_in(const MaskPlane<T>& plane, int t, int s, int origin) const {
    if (plane.length == 0) return static_cast<int64_t>(t) * a_.seq + s;
    return static_cast<int64_t>(t - origin) * plane.length + (s - origin);
  }

  /// The number of the document of a row.
  __device__ int document_number(const int32_t* documents, int row) const {
    int low = 0, high = a_.document_count;  // documents[low] ≤ row < documents[high]
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      if (documents[middle] <= row) {
        low = middle;
      } else {
        high = middle;
      }
    }
    return low;
  }

  /// The document of a position, or the sequence if there are no documents.
  __device__ Positions document_of(int t) const {
    if (a_.documents == nullptr) return {0, a_.seq};
    const int first = b_ * a_.seq, i = document_number(a_.documents, first + t);
    return {max(a_.documents[i] - first, 0), min(a_.documents[i + 1] - first, a_.seq)};
  }

  /// pattern_queries_of() a key of a document, as places.
  __device__ PatternColumns pattern_queries_of(int s, Positions document) const {
    Positions queries = document;
    if (a_.causal && s >= document.begin + a_.prefix) queries.begin = s;
    const int global_end = min(document.begin + a_.global_tokens, document.end);
    if (a_.window == 0 || s < global_end) return {{0, 0}, queries, document.begin};
    return {
        within_reach(s, queries), {queries.begin, max(global_end, queries.begin)}, document.begin};
  }

  /// The queries of document i, which has the keys `document`, whose places are in a range.
  __device__ Positions rows_at(int i, Positions document, Positions places) const {
    if (places.begin >= places.end) return {0, 0};
    const Positions rows{a_.documents[i], a_.documents[i + 1]};
    const auto first_from = [&](int low, int place) {
      for (int high = rows.end; low < high;) {
        const int middle = (low + high) / 2;
        if (document.begin + a_.positions[middle] < place) {
          low = middle + 1;
        } else {
          high = middle;
        }
      }
      return low;
    };
    const int begin =
        places.begin == document.begin ? rows.begin : first_from(rows.begin, places.begin);
    return {begin, places.end == document.end ? rows.end : first_from(begin, places.end)};
  }

  /// The keys of the document of query t of one sequence with a memory, and, in cross-attention,
  /// the queries that see key s.
  __device__ Positions memory_of(int t) const {
    const int i = document_number(a_.documents, t);
    return {a_.key_documents[i], a_.key_documents[i + 1]};
  }
  __device__ Positions queries_of_memory(int s) const {
    if (s >= a_.keys) return {0, 0};
    const int i = document_number(a_.key_documents, s);
    return {a_.documents[i], a_.documents[i + 1]};
  }

  /// The position in its padded source of a key that query t sees, minus the key's row: the same
  /// for all keys of a document.
  __device__ int64_t key_position_minus_row(int t) const {
    if (t >= a_.seq) return 0;
    const int first = memory_of(t).begin;
    if (a_.key_places == nullptr || first >= a_.keys) return 0;
    return a_.key_places[first] % a_.key_place_seq - first;
  }

  __device__ Positions within_window(int t, Positions positions) const {
    if (a_.window > 0) {
      positions.begin = max(positions.begin, t - a_.window + 1);
      positions.end = min(positions.end, t + a_.window);
    }
    return positions.begin < positions.end ? positions : Positions{0, 0};
  }

  __device__ Positions within_reach(int t, Positions positions) const {
    positions.begin = max(positions.begin, t - a_.window_reach + 1);
    positions.end = min(positions.end, t + a_.window_reach);
    return positions.begin < positions.end ? positions : Positions{0, 0};
  }

  const AttentionArguments& a_;
  int b_, h_;
  const uint8_t* hidden_keys_;
  const uint8_t* hidden_;
  const float* additive_;
  // Dropout's step and first row, read once: in a captured step they are in memory.
  uint32_t drop_step_;
  int64_t first_row_of_drops_;
};

}  // namespace tessera::cuda
