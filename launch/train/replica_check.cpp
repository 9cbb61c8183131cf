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

using Compared = ReplicaCheck::Compared;
using Copies = ReplicaCheck::Copies;

/// Lists the tensors to compare, equal on every rank, though a shard may have no elements.
std::vector<Compared> compared_tensors(const OptimizerState& state, const ParallelGroups& groups) {
  const ParameterStore& store = state.store();
  std::vector<Compared> all;
  for (const Parameter& parameter : store.parameters()) {
    const bool is_replicated = parameter.shard.replicated();
    const int num_shards = store.layout_of(parameter).sharding().num_shards;
    const auto add = [&](const char* what, const Tensor& tensor, Copies of) {
      if (tensor.defined()) all.push_back({parameter, what, tensor, of});
    };
    const auto add_whole = [&](const char* what, const Tensor& tensor) {
      add(what, tensor, is_replicated ? Copies::world : Copies::replicas);
    };
    const auto add_shard = [&](const char* what, const Tensor& tensor) {
      if (num_shards == 1) return add_whole(what, tensor);
      if (is_replicated) add(what, tensor, Copies::tensor_ranks);
      if (num_shards < groups.replicas->size()) add(what, tensor, Copies::copies);
    };
    const OptimizerShard& own = state.of(parameter);
    if (store.keeps_values(parameter)) {
      add_whole("the values", parameter.value());
    } else {
      add_shard("the values", own.value);
    }
    if (state.has_masters()) add_shard("the fp32 masters", own.master);
    add_shard("the first moments", own.exp_avg);
    add_shard("the scales of the first moments", own.exp_avg_scales);
    add_shard("the second moments", own.exp_avg_sq);
    add_shard("the scales of the second moments", own.exp_avg_sq_scales);
    add_shard("the averages", own.ema);
  }
  return all;
}

/// The message of a rank: its host, and its checksums.
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

/// The checksum of a tensor that most ranks of a group have; nullopt if no majority agrees.
std::optional<int64_t> majority(const std::vector<RankSums>& group, size_t tensor) {
  std::map<int64_t, size_t> ranks;
  for (const RankSums& rank : group) ++ranks[rank.sums[tensor]];
  for (const auto& [sum, count] : ranks) {
    if (2 * count > group.size()) return sum;
  }
  return std::nullopt;
}

/// A sentence about the tensors that differ between the ranks of a group; nullopt if none does.
std::optional<std::string> difference(const std::vector<RankSums>& group,
                                      const std::vector<int>& world_ranks,
                                      const std::vector<const Compared*>& tensors) {
  std::optional<size_t> shown;  // the first one, or the first of which most ranks agree
  size_t found = 0;
  for (size_t t = 0; t < tensors.size(); ++t) {
    const auto differs = [&](const RankSums& rank) { return rank.sums[t] != group[0].sums[t]; };
    if (std::ranges::none_of(group, differs)) continue;
    ++found;
    if (!shown || (!majority(group, *shown) && majority(group, t))) shown = t;
  }
  if (!shown) return std::nullopt;
  const std::optional<int64_t> right = majority(group, *shown);
  std::vector<std::string> different, others;
  for (size_t i = 0; i < group.size(); ++i) {
    (group[i].sums[*shown] == right ? others : different)
        .push_back(fmt::format("{} (host {})", world_ranks[i], group[i].host));
  }
  const std::string what =
      fmt::format("{} of {} compared tensors, among them {} of {},", found, tensors.size(),
                  tensors[*shown]->what, quote(tensors[*shown]->parameter.name));
  if (right) {
    return fmt::format("{} differ on {} from {}", what, text_of(different), text_of(others));
  }
  return fmt::format("{} differ between {}, and no majority says which are right", what,
                     text_of(different));
}

}  // namespace

ReplicaCheck::ReplicaCheck(const OptimizerState& state, const ParallelGroups& groups)
    : groups_(groups),
      compared_(compared_tensors(state, groups)),
      sums_({std::ssize(compared_)}, DType::i64, state.store().device()) {}

std::vector<int64_t> ReplicaCheck::checksums() const {
  const OwnedTensor in_host(sums_.tensor.shape(), DType::i64);
  const Device device = sums_.tensor.device();
  const auto sum_on = [&](const Tensor& sums) {
    for (size_t i = 0; i < compared_.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      if (compared_[i].tensor.device() == sums.device()) {
        checksum(compared_[i].tensor, sums.slice(at, at + 1));
      }
    }
  };
  sum_on(sums_.tensor);
  copy(sums_.tensor, in_host.tensor);
  if (!device.is_cpu()) sum_on(in_host.tensor);  // frozen masters
  const auto sums = in_host.tensor.span<int64_t>();
  return {sums.begin(), sums.end()};
}

void ReplicaCheck::run(int64_t step) {
  const std::vector<int64_t> sums = checksums();
  std::optional<std::string> found;
  const auto compare = [&](Copies copies, Communicator& group,
                           const std::vector<int>& world_ranks) {
    RankSums mine{host_name(), {}};
    std::vector<const Compared*> tensors;
    for (size_t i = 0; i < compared_.size(); ++i) {
      if (compared_[i].copies != copies) continue;
      tensors.push_back(&compared_[i]);
      mine.sums.push_back(sums[i]);
    }
    if (tensors.empty() || group.size() == 1) return;
    std::vector<RankSums> all;
    for (const std::string& text : all_gather_strings(group, mine.text())) {
      all.push_back(RankSums::parse(text, tensors.size()));
    }
    if (!found) found = difference(all, world_ranks, tensors);
  };
  const auto ranks_along = [&](AxisSet axes) {
    return groups_.grid.group_of(groups_.world.rank(), axes);
  };
  const AxisSet all = kReplicaAxes | AxisSet{Axis::tensor};
  compare(Copies::world, groups_.world, ranks_along(all));
  compare(Copies::replicas, *groups_.replicas, ranks_along(kReplicaAxes));
  compare(Copies::tensor_ranks, *groups_.tp, ranks_along({Axis::tensor}));
  compare(Copies::copies, *groups_.copies, groups_.grid.copies_of(groups_.world.rank()));
  all_or_none(groups_.world, [&] {
    if (!found) return;
    fail(
        "after step {}, ranks that must hold the same numbers do not: {}. A memory, a GPU or a "
        "link may be faulty, or hosts compute differently. Nothing of this step is saved: resume "
        "from an earlier checkpoint, without that host",
        step, *found);
  });
}

}  // namespace tessera
