#include "launch/data/prepare/duplicate_finder.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/error.h"

namespace tessera {
namespace {

/// The slot where a search for a key starts.
size_t first_slot(uint32_t key, size_t slots) { return uint64_t{key} * slots >> 32; }

}  // namespace

DuplicateFinder::DuplicateFinder(const MinHash* near) : near_(near) {
  if (near == nullptr) return;
  require(near->size() <= Signature{}.size(), "a signature of {} values is larger than {}",
          near->size(), Signature{}.size());
  signature_.assign(near->size(), MinHash::kNone);
  bands_.resize(near->bands());
}

void DuplicateFinder::add(const Hash128& hash, std::span<const uint32_t> signature) {
  if (hash == Hash128{}) return;
  if (hash_) {
    const std::array<Hash128, 2> both = {*hash_, hash};
    hash_ = hash128_of(std::as_bytes(std::span(both)));
  } else {
    hash_ = hash;
  }
  for (size_t i = 0; i < signature_.size(); ++i) {
    signature_[i] = std::min(signature_[i], signature[i]);
  }
}

Repeats DuplicateFinder::end_document() {
  Repeats repeats = Repeats::nothing;
  if (!seen_.insert(hash_.value_or(Hash128{}))) {
    repeats = Repeats::text;
  } else if (near_ != nullptr && !insert_unless_near()) {
    repeats = Repeats::nearly_text;
  }
  skip_document();
  return repeats;
}

void DuplicateFinder::skip_document() {
  hash_.reset();
  std::ranges::fill(signature_, MinHash::kNone);
}

bool DuplicateFinder::insert_unless_near() {
  // A text of white space has no word. It is like no other one.
  if (signature_.front() == MinHash::kNone) return true;
  std::vector<uint32_t> keys;
  for (size_t band = 0; band < bands_.size(); ++band) keys.push_back(key_of(band));
  for (size_t band = 0; band < bands_.size(); ++band) {
    const Band& slots = bands_[band];
    if (slots.empty()) continue;
    for (size_t slot = first_slot(keys[band], slots.size()); slots[slot].document != 0;
         slot = slot + 1 == slots.size() ? 0 : slot + 1) {
      if (slots[slot].key == keys[band] && is_near(signatures_[slots[slot].document - 1])) {
        return false;
      }
    }
  }
  require(signatures_.size() < std::numeric_limits<uint32_t>::max() - 1,
          "prepare: --near-duplicates compares at most {} documents: prepare fewer files at once",
          std::numeric_limits<uint32_t>::max() - 1);
  Signature& kept = signatures_.emplace_back();
  for (size_t i = 0; i < signature_.size(); ++i) kept[i] = static_cast<uint16_t>(signature_[i]);
  const auto number = static_cast<uint32_t>(signatures_.size());
  for (size_t band = 0; band < bands_.size(); ++band) {
    if (5 * signatures_.size() > 4 * bands_[band].size()) grow(bands_[band]);
    insert(bands_[band], {keys[band], number});
  }
  return true;
}

uint32_t DuplicateFinder::key_of(size_t band) const {
  const auto values =
      std::span<const uint32_t>(signature_).subspan(band * near_->rows(), near_->rows());
  return static_cast<uint32_t>(hash_of(std::as_bytes(values)));
}

bool DuplicateFinder::is_near(const Signature& other) const {
  size_t equal = 0;
  for (size_t i = 0; i < signature_.size(); ++i) {
    equal += static_cast<uint16_t>(signature_[i]) == other[i] ? 1 : 0;
  }
  return static_cast<double>(equal) >= near_->threshold() * static_cast<double>(signature_.size());
}

void DuplicateFinder::insert(Band& band, Entry entry) {
  size_t slot = first_slot(entry.key, band.size());
  while (band[slot].document != 0) slot = slot + 1 == band.size() ? 0 : slot + 1;
  band[slot] = entry;
}

void DuplicateFinder::grow(Band& band) {
  Band larger(band.size() + band.size() / 2 + 8);
  for (const Entry& entry : band) {
    if (entry.document != 0) insert(larger, entry);
  }
  band = std::move(larger);
}

}  // namespace tessera
