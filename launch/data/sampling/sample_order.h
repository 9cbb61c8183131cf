#pragma once

#include <cstdint>

namespace tessera {

/// The properties of a training dataset that determine the order of samples.
struct TrainPart {
  int64_t samples = 0;
  double share = 1.0;  ///< fraction of the run's samples: weight / sum of all weights

  bool operator==(const TrainPart&) const = default;
};

/// Returns the image of `i` under a permutation of [0, n) that depends on (seed, epoch). Computes
/// it without tables: a Feistel network over the smallest sufficient domain of 4^k integers,
/// iterated until it returns to [0, n) (Black and Rogaway, "Ciphers with arbitrary finite domains",
/// 2002). Throws unless 0 <= i < n and epoch >= 0.
///
/// Resumed runs rely on this order: it must never change.
int64_t permuted(uint64_t seed, int64_t epoch, int64_t n, int64_t i);

/// Returns the place of sample `i` of a file of n in a fixed random order. Many files are sorted by
/// label, and training and held-out samples need all labels.
int64_t shuffled_place(int64_t n, int64_t i);

/// Returns which of n samples is used at place `position` of the whole run, counted over all
/// epochs. It depends on nothing else: not on ranks, batch sizes or where a run was resumed.
int64_t sample_at(uint64_t seed, int64_t n, int64_t position);

}  // namespace tessera
