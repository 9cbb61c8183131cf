#include "parallel/communicators/host/host_layout.h"

#include <algorithm>
#include <cstddef>
#include <map>

#include "parallel/communicators/reduce.h"

namespace tessera {

HostLayout::HostLayout(const std::vector<int>& host_of_rank) {
  std::map<int, int> numbers;
  for (size_t rank = 0; rank < host_of_rank.size(); ++rank) {
    const int host = numbers.try_emplace(host_of_rank[rank], hosts()).first->second;
    if (host == hosts()) hosts_.emplace_back();
    std::vector<int>& ranks = hosts_[static_cast<size_t>(host)].ranks;
    places_.push_back({host, static_cast<int>(ranks.size())});
    ranks.push_back(static_cast<int>(rank));
  }
  const Range all{0, ranks()};
  if (const int host = add_subtrees(all); host >= 0) {
    hosts_[static_cast<size_t>(host)].subtrees.push_back(all);
  }
  for (Host& host : hosts_) std::ranges::sort(host.subtrees, {}, &Range::begin);
}

int HostLayout::add_subtrees(Range ranks) {
  if (ranks.size() == 1) return host_of(static_cast<int>(ranks.begin));
  const int64_t middle = sum_split(ranks);
  const Range left{ranks.begin, middle}, right{middle, ranks.end};
  const int first = add_subtrees(left);
  const int second = add_subtrees(right);
  if (first == second) return first;
  if (first >= 0) hosts_[static_cast<size_t>(first)].subtrees.push_back(left);
  if (second >= 0) hosts_[static_cast<size_t>(second)].subtrees.push_back(right);
  return -1;
}

int HostLayout::carrier(int owner, int host) const {
  const std::vector<int>& ranks = ranks_of(host);
  return ranks[static_cast<size_t>(index_on_host(owner)) % ranks.size()];
}

}  // namespace tessera
