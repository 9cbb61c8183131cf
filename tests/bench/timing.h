#pragma once

#include <algorithm>
#include <chrono>
#include <ctime>
#include <vector>

namespace tessera::bench {

struct Times {
  double wall, cpu;  ///< seconds; cpu counts all threads, including waiting ones
};

template <typename Body>
Times time_of(Body&& body) {
  const std::clock_t cpu = std::clock();
  const auto start = std::chrono::steady_clock::now();
  body();
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  return {wall.count(), static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC};
}

/// The median of at least one value.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace tessera::bench
