#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "launch/tokenizers/bpe/bpe_vocabulary.h"

namespace tessera {

/// Joins tokens by merges, as byte-pair encoding does (Sennrich et al. 2016): of all pairs of
/// neighbours that there is a merge for the most urgent is joined, the first of equal ones, until
/// there is no such pair.
class BpeMerges {
 public:
  /// By their urgency; no pair twice.
  explicit BpeMerges(std::span<const BpeMerge> merges);

  /// What join() works with, kept between calls so that it need not be allocated anew.
  struct Workspace {
    std::vector<uint32_t> ranks;     ///< of the pair that starts at each token
    std::vector<uint32_t> next;      ///< token that is left, behind each
    std::vector<uint32_t> previous;  ///< before each
    std::vector<uint64_t> queue;     ///< a heap of (rank, place)
  };

  /// Joins the tokens of a word in place. Takes O(n log n) for n tokens, n below 2^31.
  void join(std::vector<int32_t>& word, Workspace& workspace) const;

 private:
  static constexpr uint32_t kNone = 0xFFFFFFFF;  ///< the rank of a pair that is not joined

  struct Slot {
    uint64_t pair = 0;
    uint32_t rank = kNone;
  };

  uint32_t rank_of(int32_t left, int32_t right) const;
  void join_short(std::vector<int32_t>& word, Workspace& workspace) const;
  void join_long(std::vector<int32_t>& word, Workspace& workspace) const;

  std::vector<int32_t> joined_;  ///< by rank
  std::vector<Slot> slots_;      ///< a hash table with linear probing, at most half full
  unsigned shift_ = 0;           ///< takes a hash to a slot
};

}  // namespace tessera
