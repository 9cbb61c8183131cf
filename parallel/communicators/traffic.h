#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>

#include "core/tensor.h"

namespace tessera {

/// The purpose of communication.
enum class Traffic : uint8_t {
  counts,     ///< outside any scope: targets, losses, and error flags
  embedding,  ///< the vocabulary-parallel embedding
  forward,    ///< the blocks
  loss,       ///< the vocabulary-parallel loss and its gradient
  recompute,  ///< forward passes of blocks that backward repeats
  backward,   ///< the blocks
  gradients,  ///< sums over the data ranks and, for some, the tensor ranks
  norm,       ///< the gradient norm
  weights,    ///< weights that each data rank updates a shard of
  optimizer,  ///< matrices that Muon orthogonalizes as a whole
};

std::string_view to_string(Traffic traffic);

/// Sets the purpose of the calling thread's collectives during its lifetime, for TrafficTally and
/// Timeline only. Scopes nest; the innermost applies.
class TrafficScope {
 public:
  explicit TrafficScope(Traffic traffic);
  ~TrafficScope();
  /// The purpose set by the innermost scope.
  static Traffic current();

  TrafficScope(const TrafficScope&) = delete;
  TrafficScope& operator=(const TrafficScope&) = delete;

 private:
  Traffic outer_;
};

/// The operations of a communicator.
enum class Collective : uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  exchange,
  barrier,
  split
};

std::string_view to_string(Collective collective);

/// Bytes that a rank of a group of `ranks` sends in a collective on `bytes` bytes, with algorithms
/// that minimize traffic for large tensors. A ring's reduce-scatter and all-gather each send (n −
/// 1)/n of the bytes, an all-reduce sends both, and a broadcast along a ring sends (n − 1)/n on
/// average (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
/// workstations", 2009). An exchange's bytes are those of bytes_of().
double bytes_sent(Collective collective, int ranks, int64_t bytes);

/// Traffic of one rank's calls in one group, summed by purpose and operation. Groups of one and
/// tensors without elements cause no traffic.
class TrafficTally {
 public:
  struct Sum {
    int64_t calls = 0;
    /// Of the larger tensor: an all_gather's output, a reduce_scatter's input. Of an exchange, see
    /// bytes_of().
    int64_t bytes = 0;
    bool operator==(const Sum&) const = default;
  };
  using Sums = std::map<std::pair<Traffic, Collective>, Sum>;

  /// For a group of `ranks` ranks.
  explicit TrafficTally(int ranks = 1) : ranks_(ranks) {}

  /// Adds a call on `bytes` bytes with the calling thread's current purpose.
  void add(Collective collective, size_t bytes);

  /// Counts what was added since this tally equaled `before` `times` times instead of once. Throws
  /// on overflow.
  void repeat_since(const TrafficTally& before, int64_t times);

  int ranks() const { return ranks_; }
  const Sums& sums() const { return sums_; }
  /// Bytes sent by this rank, computed by bytes_sent().
  double bytes_sent() const;
  double bytes_sent(Traffic traffic) const;
  int64_t calls() const;
  int64_t calls(Traffic traffic) const;

 private:
  int ranks_;
  Sums sums_;
};

}  // namespace tessera
