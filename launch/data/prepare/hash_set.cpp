#include "launch/data/prepare/hash_set.h"

#include <utility>

namespace tessera {
namespace {

constexpr Hash128 kFree{};

}  // namespace

bool HashSet::insert(Hash128 hash) {
  if (hash == kFree) hash.low = 1;
  Table& table = tables_[hash.high >> 56];
  // At most 7 of 8 slots are used: with more, a search visits dozens of them.
  if (8 * (table.used + 1) > 7 * table.slots.size()) grow(table);
  Hash128& slot = slot_of(table.slots, hash);
  if (slot == hash) return false;
  slot = hash;
  ++table.used;
  return true;
}

Hash128& HashSet::slot_of(std::vector<Hash128>& slots, const Hash128& hash) {
  size_t slot = hash.low % slots.size();
  while (slots[slot] != kFree && slots[slot] != hash)
    slot = slot + 1 == slots.size() ? 0 : slot + 1;
  return slots[slot];
}

void HashSet::grow(Table& table) {
  std::vector<Hash128> larger(table.slots.size() + table.slots.size() / 4 + 8);
  for (const Hash128& hash : table.slots) {
    if (hash != kFree) slot_of(larger, hash) = hash;
  }
  table.slots = std::move(larger);
}

}  // namespace tessera
