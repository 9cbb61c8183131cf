#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "launch/support/files/checksum.h"

namespace tessera {

/// A set of 128-bit hashes in 18 to 23 bytes each. It consists of many small tables that grow one
/// by one, so that growing takes no more memory for a moment either.
class HashSet {
 public:
  /// Adds a hash. Returns whether it was new.
  bool insert(Hash128 hash);

 private:
  /// A hash is in the first free slot from the one on that its low bits choose. The slots of a
  /// free one are 0.
  struct Table {
    std::vector<Hash128> slots;
    size_t used = 0;
  };
  static Hash128& slot_of(std::vector<Hash128>& slots, const Hash128& hash);
  static void grow(Table& table);

  std::array<Table, 256> tables_;  ///< by the highest bits
};

}  // namespace tessera
