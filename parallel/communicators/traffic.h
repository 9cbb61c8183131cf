#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>

#include "core/tensor.h"

namespace tessera {

/// What ranks exchange something for.
enum class Traffic : uint8_t {
  counts,     ///< what no scope names: targets, losses, and whether a rank has an error
  embedding,  ///< the vocabulary-parallel embedding
  forward,    ///< the blocks
  loss,       ///< the vocabulary-parallel loss and its gradient
  recompute,  ///< forward passes of blocks within their backward
  backward,   ///< the blocks
  gradients,  ///< their sum over the data ranks, and of some over the tensor ranks
  norm,       ///< of the gradient
  weights,    ///< those that each data rank updates a share of
};

std::string_view to_string(Traffic traffic);

/// Names what the calling thread's collectives are for as long as it lives: for a TrafficTally and
/// a Timeline alone, nothing else depends on it. Scopes nest; the innermost counts.
class TrafficScope {
 public:
  explicit TrafficScope(Traffic traffic);
  ~TrafficScope();
  /// What the innermost says.
  static Traffic current();

  TrafficScope(const TrafficScope&) = delete;
  TrafficScope& operator=(const TrafficScope&) = delete;

 private:
  Traffic outer_;
};

/// The calls of a communicator.
enum class Collective : uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  send,
  recv,
  barrier
};

std::string_view to_string(Collective collective);

/// What a rank sends in a group of `ranks`, of a collective on so many bytes, by the algorithms
/// whose traffic is least for large tensors: a ring's reduce-scatter and all-gather send (n − 1)/n
/// of the bytes, an all-reduce is both, and a broadcast along a ring sends on average (n − 1)/n
/// (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
/// workstations", 2009).
double bytes_sent(Collective collective, int ranks, int64_t bytes);

/// What one rank's calls in one group exchange, added up by what for and how. A group of one
/// exchanges nothing, and so do tensors without elements.
class TrafficTally {
 public:
  struct Sum {
    int64_t calls = 0;
    int64_t bytes = 0;  ///< of the whole tensors: an all_gather's output, a reduce_scatter's input
    bool operator==(const Sum&) const = default;
  };
  using Sums = std::map<std::pair<Traffic, Collective>, Sum>;

  /// Of a group of so many ranks.
  explicit TrafficTally(int ranks = 1) : ranks_(ranks) {}

  /// A call on `bytes`, for what the calling thread's scopes say.
  void add(Collective collective, size_t bytes);

  /// Counts what was added since this tally was `before` so many times instead of once. Throws if
  /// that overflows.
  void repeat_since(const TrafficTally& before, int64_t times);

  int ranks() const { return ranks_; }
  const Sums& sums() const { return sums_; }
  /// By this rank, as of bytes_sent().
  double bytes_sent() const;
  double bytes_sent(Traffic traffic) const;
  int64_t calls() const;
  int64_t calls(Traffic traffic) const;

 private:
  int ranks_;
  Sums sums_;
};

}  // namespace tessera
