#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace tessera {

/// Counts values by size. The buckets are fixed, so histograms of parts add up to that of the
/// whole: eight for each power of two from 2^−60 to 2^40, of either sign, and one for what is
/// between them. Larger values count in the outermost ones. Values that are not finite are left
/// out.
struct ValueHistogram {
  static constexpr int64_t kPerSign = 800;
  static constexpr int64_t kBuckets = 2 * kPerSign + 1;

  std::vector<int64_t> counts = std::vector<int64_t>(kBuckets);  ///< by size, from −∞ to ∞
  double sum = 0.0, sum_squares = 0.0;
  double least = std::numeric_limits<double>::infinity();
  double largest = -std::numeric_limits<double>::infinity();

  void add(std::span<const float> values);
  int64_t total() const;

  /// Returns the value at which a bucket ends and the next one begins.
  static double end_of(int64_t bucket);
};

}  // namespace tessera
