#pragma once

#include <cstdint>

namespace tessera {

/// Where place `i` of epoch `epoch` leads: for each (seed, epoch), i -> permuted(i) is another
/// permutation of [0, n). It is computed, not stored: a Feistel network over the smallest fitting
/// domain of 4^k numbers, followed until it returns to [0, n) (Black and Rogaway, "Ciphers with
/// arbitrary finite domains", 2002). Throws unless 0 <= i < n and epoch >= 0.
///
/// A resumed run relies on these numbers: they may never change.
int64_t permuted(uint64_t seed, int64_t epoch, int64_t n, int64_t i);

/// The sample, of n, that is used at place `position` of the whole run, counted over all epochs.
/// The order depends on nothing else: not on ranks, batch sizes or where a run was resumed.
int64_t sample_at(uint64_t seed, int64_t n, int64_t position);

}  // namespace tessera
