#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

/// A sparkline: the values of a number so far in a few characters, from ▁ for the least to █ for
/// the largest. Each stands for the mean of equally many values; values that are not finite are
/// left out.
class Sparkline {
 public:
  /// Characters, an even number; there are at least half as many once that many values are known.
  explicit Sparkline(size_t most = 20) : most_(most) {}

  void add(double value);
  /// "" for less than two values.
  std::string text() const;

 private:
  struct Mean {
    double sum = 0.0;
    int64_t count = 0;

    double value() const { return sum / static_cast<double>(count); }
  };

  size_t most_;
  int64_t values_of_each_ = 1;
  std::vector<Mean> means_;
};

}  // namespace tessera
