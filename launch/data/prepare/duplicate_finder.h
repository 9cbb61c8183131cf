#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "launch/data/prepare/hash_set.h"
#include "launch/data/prepare/min_hash.h"
#include "launch/support/files/checksum.h"

namespace tessera {

/// How a document relates to the earlier ones.
enum class Repeats : uint8_t {
  nothing,
  text,         ///< it has the text of one
  nearly_text,  ///< its similarity to one is estimated to be at least MinHash::threshold()
};

/// Finds documents that repeat earlier ones. What it finds depends only on the documents and their
/// order. Two texts are the same if their hashes are: by chance this happens once in 10^18 corpora
/// of 10^10 documents. Memory is about 20 bytes for each text that no earlier document has, and
/// about 500 bytes more for near duplicates.
class DuplicateFinder {
 public:
  /// `near`, if not null, also finds near duplicates; it must outlive this object.
  explicit DuplicateFinder(const MinHash* near);

  /// Adds a piece of the current document: the hash of its text, and its signature if near
  /// duplicates are looked for. Pieces without text have the hash Hash128{} and are ignored.
  void add(const Hash128& hash, std::span<const uint32_t> signature);

  /// Ends the current document and compares it with all earlier ones. A near duplicate is compared
  /// with the first of its kind only.
  Repeats end_document();

  /// Ends the current document without remembering it.
  void skip_document();

 private:
  /// Values of the kept signatures. Half of a value is enough to compare.
  using Signature = std::array<uint16_t, 128>;

  /// The documents with the same values in a band: open addressing by `key`, which a chance
  /// collision only makes compare in vain.
  struct Entry {
    uint32_t key = 0;
    uint32_t document = 0;  ///< its number + 1; 0 if the slot is free
  };
  using Band = std::vector<Entry>;

  bool insert_unless_near();
  uint32_t key_of(size_t band) const;
  bool is_near(const Signature& other) const;
  static void insert(Band& band, Entry entry);
  static void grow(Band& band);

  const MinHash* near_;
  std::optional<Hash128> hash_;  ///< of the current document
  std::vector<uint32_t> signature_;
  HashSet seen_;
  std::deque<Signature> signatures_;
  std::vector<Band> bands_;
};

}  // namespace tessera
