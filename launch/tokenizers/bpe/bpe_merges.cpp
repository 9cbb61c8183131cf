#include "launch/tokenizers/bpe/bpe_merges.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "core/checked.h"
#include "core/error.h"

namespace tessera {
namespace {

/// Up to this many tokens, repeatedly scanning all pairs is faster than a queue.
constexpr size_t kShort = 48;

uint64_t pair_of(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

/// The upper bits depend on all bits of the pair.
uint64_t hash_of(uint64_t pair) {
  pair *= 0x9E3779B97F4A7C15;
  return (pair ^ pair >> 32) * 0xD6E8FEB86659FD93;
}

}  // namespace

BpeMerges::BpeMerges(std::span<const BpeMerge> merges) {
  const size_t size = std::bit_ceil(2 * merges.size() + 2);
  slots_.resize(size);
  shift_ = static_cast<unsigned>(64 - std::countr_zero(size));
  joined_.reserve(merges.size());
  for (const BpeMerge& merge : merges) {
    const uint64_t pair = pair_of(merge.left, merge.right);
    size_t at = hash_of(pair) >> shift_;
    while (slots_[at].rank != kNone) at = (at + 1) & (size - 1);
    slots_[at] = {pair, narrow<uint32_t>(joined_.size())};
    joined_.push_back(merge.joined);
  }
}

uint32_t BpeMerges::rank_of(int32_t left, int32_t right) const {
  const uint64_t pair = pair_of(left, right);
  size_t at = hash_of(pair) >> shift_;
  while (slots_[at].pair != pair && slots_[at].rank != kNone) at = (at + 1) & (slots_.size() - 1);
  return slots_[at].pair == pair ? slots_[at].rank : kNone;
}

void BpeMerges::join(std::vector<int32_t>& word, Workspace& workspace) const {
  if (word.size() <= kShort) {
    join_short(word, workspace);
  } else {
    join_long(word, workspace);
  }
}

void BpeMerges::join_short(std::vector<int32_t>& word, Workspace& workspace) const {
  std::vector<uint32_t>& ranks = workspace.ranks;
  ranks.clear();
  for (size_t i = 0; i + 1 < word.size(); ++i) ranks.push_back(rank_of(word[i], word[i + 1]));
  while (!ranks.empty()) {
    const auto best = std::min_element(ranks.begin(), ranks.end());
    if (*best == kNone) return;
    const auto at = best - ranks.begin();
    const auto i = static_cast<size_t>(at);
    word[i] = joined_[*best];
    word.erase(word.begin() + at + 1);
    ranks.erase(best);
    if (i > 0) ranks[i - 1] = rank_of(word[i - 1], word[i]);
    if (i < ranks.size()) ranks[i] = rank_of(word[i], word[i + 1]);
  }
}

// Uses a linked list of the remaining tokens and a queue of pairs. A queued pair is stale if the
// rank at its position has changed.
void BpeMerges::join_long(std::vector<int32_t>& word, Workspace& workspace) const {
  require(word.size() < size_t{1} << 31,
          "a word of {} bytes is too long for byte-pair encoding: the limit is 2^31 - 1",
          word.size());
  const auto size = static_cast<uint32_t>(word.size());
  auto& ranks = workspace.ranks;
  auto& next = workspace.next;
  auto& previous = workspace.previous;
  auto& queue = workspace.queue;
  ranks.assign(size, kNone);
  next.resize(size);
  previous.resize(size);
  queue.clear();
  const auto entry = [&](uint32_t at) { return static_cast<uint64_t>(ranks[at]) << 32 | at; };
  for (uint32_t i = 0; i < size; ++i) {
    next[i] = i + 1;
    previous[i] = i - 1;  // kNone for the first
    if (i + 1 < size) ranks[i] = rank_of(word[i], word[i + 1]);
    if (ranks[i] != kNone) queue.push_back(entry(i));
  }
  const std::greater<> smallest_first;
  std::make_heap(queue.begin(), queue.end(), smallest_first);
  const auto rank_again = [&](uint32_t at) {
    ranks[at] = next[at] < size ? rank_of(word[at], word[next[at]]) : kNone;
    if (ranks[at] == kNone) return;
    queue.push_back(entry(at));
    std::push_heap(queue.begin(), queue.end(), smallest_first);
  };
  while (!queue.empty()) {
    const uint64_t best = queue.front();
    std::pop_heap(queue.begin(), queue.end(), smallest_first);
    queue.pop_back();
    const auto at = static_cast<uint32_t>(best);
    if (best != entry(at)) continue;
    const uint32_t gone = next[at];
    word[at] = joined_[ranks[at]];
    ranks[gone] = kNone;
    next[at] = next[gone];
    if (next[at] < size) previous[next[at]] = at;
    rank_again(at);
    if (previous[at] != kNone) rank_again(previous[at]);
  }
  size_t count = 0;
  for (uint32_t i = 0; i < size; i = next[i]) word[count++] = word[i];
  word.resize(count);
}

}  // namespace tessera
