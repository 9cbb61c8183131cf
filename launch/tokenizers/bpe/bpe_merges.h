#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "launch/tokenizers/bpe/bpe_vocabulary.h"

namespace tessera {

/// Byte-pair encoding (Sennrich et al. 2016): repeatedly merges the adjacent pair with the highest
/// priority, the leftmost on a tie, until no merge applies.
class BpeMerges {
 public:
  /// In order of priority, without duplicates.
  explicit BpeMerges(std::span<const BpeMerge> merges);

  /// Buffers of join(), reused to avoid allocations.
  struct Workspace {
    std::vector<uint32_t> ranks;     ///< of the pair that starts at each token
    std::vector<uint32_t> next;      ///< next remaining token
    std::vector<uint32_t> previous;  ///< previous remaining token
    std::vector<uint64_t> queue;     ///< a heap of (rank, position)
  };

  /// Merges the tokens of a word in place, in O(n log n) for n < 2^31 tokens.
  void join(std::vector<int32_t>& word, Workspace& workspace) const;

 private:
  static constexpr uint32_t kNone = 0xFFFFFFFF;  ///< rank of a pair that does not merge

  struct Slot {
    uint64_t pair = 0;
    uint32_t rank = kNone;
  };

  uint32_t rank_of(int32_t left, int32_t right) const;
  void join_short(std::vector<int32_t>& word, Workspace& workspace) const;
  void join_long(std::vector<int32_t>& word, Workspace& workspace) const;

  std::vector<int32_t> joined_;  ///< by rank
  std::vector<Slot> slots_;      ///< a hash table with linear probing, at most half full
  unsigned shift_ = 0;           ///< shifts a hash to a slot
};

}  // namespace tessera
