#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tessera {

/// Whose turn it is among N parts at each place of an endless row, so that every part has its share
/// of any stretch. The parts are halved again and again; where two halves share m places, the first
/// has round(its share of them × m), which says for every place to whom it belongs and how many it
/// had before. Among the first n places a part's turns differ from its share × n by at most half a
/// turn for each halving: log2 N, rounded up. Nothing is stored but the weights, and a place costs
/// two divisions for each halving.
///
/// A resumed run relies on these turns: they may never change.
class BlendOrder {
 public:
  /// Throws if there is no weight, or one is not a positive finite number.
  explicit BlendOrder(std::span<const double> weights);

  struct Turn {
    size_t part = 0;
    int64_t number = 0;  ///< how often it was its turn before
  };

  /// The turn at `place` ≥ 0.
  Turn at(int64_t place) const;

  /// The part's share of all places, at most 1.
  double share(size_t part) const;

 private:
  /// Of `places` that the parts [begin, end) share, those of the parts before `middle`.
  int64_t count_first(size_t begin, size_t middle, size_t end, int64_t places) const;

  /// The sum of the weights before each part, and at last of all, which is about 2^62: whole
  /// numbers, so that no place is far enough away to be rounded.
  std::vector<uint64_t> before_{0};
};

}  // namespace tessera
