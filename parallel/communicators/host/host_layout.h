#pragma once

#include <cstddef>
#include <vector>

#include "core/range.h"

namespace tessera {

/// Which ranks of a group share a host, and which of them sends what to the other hosts. A host is
/// a set of ranks that copy from and to each other's memory. Ranks of a host need not be
/// neighbors, and hosts may have different numbers of ranks.
///
/// A tensor is cut into one slice per rank, its owner. On every other host, one rank carries the
/// slice: it sends the host's sums of it to the owner, and distributes what the owner returns. So
/// each slice crosses the network once per host and direction, and all ranks share the work.
class HostLayout {
 public:
  /// `host_of_rank` has a number for each rank, equal for the ranks of a host.
  explicit HostLayout(const std::vector<int>& host_of_rank);
  /// All ranks on one host.
  static HostLayout one_host(int ranks) {
    return HostLayout(std::vector<int>(static_cast<size_t>(ranks), 0));
  }

  int ranks() const { return static_cast<int>(places_.size()); }
  /// Hosts are numbered from 0 in the order of their first ranks.
  int hosts() const { return static_cast<int>(hosts_.size()); }
  int host_of(int rank) const { return places_[static_cast<size_t>(rank)].host; }
  int index_on_host(int rank) const { return places_[static_cast<size_t>(rank)].index; }
  /// The ranks of a host, ascending.
  const std::vector<int>& ranks_of(int host) const { return at(host).ranks; }

  /// The rank of `host` that carries the slice of `owner`, a rank of another host.
  int carrier(int owner, int host) const;

  /// The largest subtrees of the order of sums (parallel/communicators/reduce.h) with ranks of this
  /// host only, ascending. A host sends one sum for each. There is one if the ranks are neighbors,
  /// each host has the same power of 2 of them, and the first host starts at rank 0.
  const std::vector<Range>& subtrees(int host) const { return at(host).subtrees; }

 private:
  struct Place {
    int host = 0, index = 0;
  };
  struct Host {
    std::vector<int> ranks;
    std::vector<Range> subtrees;
  };
  const Host& at(int host) const { return hosts_[static_cast<size_t>(host)]; }
  /// Adds the subtrees of a range to their hosts. Returns the host of the range, or -1 if it spans
  /// several.
  int add_subtrees(Range ranks);

  std::vector<Place> places_;
  std::vector<Host> hosts_;
};

}  // namespace tessera
