#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tessera {

/// Assigns the places of an infinite sequence to N parts, so that every part gets its share of any
/// stretch. The parts are bisected recursively: if two halves share m places, the first gets
/// round(its share of them × m). This determines the owner of each place and how many places the
/// owner had before. Among the first n places, a part's count differs from its share × n by at most
/// half a turn per bisection: log2 N, rounded up. Only the weights are stored, and a place costs
/// two divisions per bisection.
///
/// Resumed runs rely on this order: it must never change.
class BlendOrder {
 public:
  /// Throws if there are no weights, or if one is not a positive finite number.
  explicit BlendOrder(std::span<const double> weights);

  struct Turn {
    size_t part = 0;
    int64_t number = 0;  ///< number of the part's earlier turns
  };

  /// Returns the turn at `place` ≥ 0.
  Turn at(int64_t place) const;

  /// Returns how many of the first `places` each part gets.
  std::vector<int64_t> turns(int64_t places) const;

  /// Returns the part's share of all places, at most 1.
  double share(size_t part) const;

 private:
  /// Adds the turns() of the parts [begin, end), which share the places.
  void add_turns(size_t begin, size_t end, int64_t places, std::vector<int64_t>& turns) const;
  /// Returns how many of the `places` that the parts [begin, end) share go to parts before
  /// `middle`.
  int64_t count_first(size_t begin, size_t middle, size_t end, int64_t places) const;

  /// The sum of the weights before each part, then of all, which is about 2^62. Integers are exact
  /// at any place.
  std::vector<uint64_t> before_{0};
};

}  // namespace tessera
