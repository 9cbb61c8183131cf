#include "launch/train/replica_check.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/ops/checksum.h"
#include "core/ops/elementwise.h"
#include "launch/support/text/json.h"
#include "parallel/communicators/exchange.h"
#include "parallel/host/host_name.h"

namespace tessera {
namespace {

/// What a rank sends: its host, and the checksums of its parameters.
struct RankSums {
  std::string host;
  std::vector<int64_t> sums;

  std::string text() const {
    std::string text(sums.size() * sizeof(int64_t), '\0');
    std::memcpy(text.data(), sums.data(), text.size());
    return text + host;
  }
  static RankSums parse(const std::string& text, size_t count) {
    RankSums parsed;
    parsed.sums.resize(count);
    const size_t bytes = count * sizeof(int64_t);
    std::memcpy(parsed.sums.data(), text.data(), bytes);
    parsed.host = text.substr(bytes);
    return parsed;
  }
};

std::string text_of(const std::vector<std::string>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

/// How often each checksum of a parameter occurs in a group.
std::map<int64_t, size_t> ranks_by_sum(const std::vector<RankSums>& group, size_t parameter) {
  std::map<int64_t, size_t> ranks;
  for (const RankSums& rank : group) ++ranks[rank.sums[parameter]];
  return ranks;
}

/// A sentence about the parameters that differ between the ranks of a group; nullopt if none does.
std::optional<std::string> difference(const std::vector<RankSums>& group,
                                      const std::vector<int>& world_ranks,
                                      const std::deque<Parameter>& parameters,
                                      bool replicated_only) {
  std::vector<size_t> found;
  for (size_t p = 0; p < parameters.size(); ++p) {
    if (replicated_only && !parameters[p].shard.replicated()) continue;
    if (ranks_by_sum(group, p).size() > 1) found.push_back(p);
  }
  if (found.empty()) return std::nullopt;
  const std::map<int64_t, size_t> ranks = ranks_by_sum(group, found.front());
  const auto most =
      std::ranges::max_element(ranks, {}, [](const auto& of_sum) { return of_sum.second; });
  const bool majority = 2 * most->second > group.size();
  std::vector<std::string> different, others;
  for (size_t i = 0; i < group.size(); ++i) {
    const bool same = majority && group[i].sums[found.front()] == most->first;
    (same ? others : different)
        .push_back(fmt::format("{} (host {})", world_ranks[i], group[i].host));
  }
  const std::string weights =
      fmt::format("{} of the {} parameters, the first being {},", found.size(), parameters.size(),
                  quote(parameters[found.front()].name));
  if (majority) {
    return fmt::format("{} differ on {} from {}", weights, text_of(different), text_of(others));
  }
  return fmt::format("{} differ between {}, and no majority says which are right", weights,
                     text_of(different));
}

}  // namespace

ReplicaCheck::ReplicaCheck(const ParameterStore& store, const ParallelGroups& groups)
    : store_(store),
      groups_(groups),
      sums_({std::ssize(store.parameters())}, DType::i64, store.device()) {}

void ReplicaCheck::run(int64_t step) {
  const std::deque<Parameter>& parameters = store_.parameters();
  RankSums mine{host_name(), std::vector<int64_t>(parameters.size())};
  for (size_t p = 0; p < parameters.size(); ++p) {
    const auto at = static_cast<int64_t>(p);
    checksum(parameters[p].value, sums_.tensor.slice(at, at + 1));
  }
  const OwnedTensor on_host(sums_.tensor.shape(), DType::i64, kCpu);
  copy(sums_.tensor, on_host.tensor);
  std::ranges::copy(on_host.tensor.span<int64_t>(), mine.sums.begin());

  std::optional<std::string> found;
  const auto compare = [&](Communicator& group, const std::vector<int>& world_ranks,
                           bool replicated_only) {
    std::vector<RankSums> all;
    for (const std::string& text : all_gather_strings(group, mine.text())) {
      all.push_back(RankSums::parse(text, parameters.size()));
    }
    if (!found) found = difference(all, world_ranks, parameters, replicated_only);
  };
  const GridPlace place = groups_.grid.place_of(groups_.world.rank());
  compare(*groups_.dp, groups_.grid.data_group(place.tensor_index), false);
  compare(*groups_.tp, groups_.grid.tensor_group(place.data_index), true);
  all_or_none(groups_.world, [&] {
    if (!found) return;
    fail(
        "after step {}, ranks that must hold the same weights do not: {}. A memory, a GPU or a "
        "link may be faulty, or hosts compute differently. These weights are not saved: resume "
        "from an earlier checkpoint, without that host",
        step, *found);
  });
}

}  // namespace tessera
