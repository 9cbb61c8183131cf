#include "launch/metrics/value_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace tessera {
namespace {

// The exponent of a float and the first three bits of its fraction number its eighth of an octave.
constexpr int kShift = 20;
constexpr int64_t kFirst = (127 - 60) << 3;  // of 2^−60

int64_t eighth_of(float magnitude) {
  const int64_t number = (std::bit_cast<uint32_t>(magnitude) >> kShift) - kFirst;
  return std::min(number, ValueHistogram::kPerSign - 1);
}

/// The least magnitude of an eighth.
double begin_of(int64_t eighth) {
  const auto bits = static_cast<uint32_t>(eighth + kFirst) << kShift;
  return double{std::bit_cast<float>(bits)};
}

}  // namespace

void ValueHistogram::add(std::span<const float> values) {
  for (const float value : values) {
    if (!std::isfinite(value)) continue;
    const int64_t eighth = eighth_of(std::abs(value));
    int64_t bucket = kPerSign;
    if (eighth >= 0) bucket += value < 0.0f ? -1 - eighth : 1 + eighth;
    ++counts[static_cast<size_t>(bucket)];
    const double wide = double{value};
    sum += wide;
    sum_squares += wide * wide;
    least = std::min(least, wide);
    largest = std::max(largest, wide);
  }
}

int64_t ValueHistogram::total() const {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

double ValueHistogram::end_of(int64_t bucket) {
  return bucket < kPerSign ? -begin_of(kPerSign - 1 - bucket) : begin_of(bucket - kPerSign);
}

}  // namespace tessera
