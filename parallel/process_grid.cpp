#include "parallel/process_grid.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "core/checked.h"
#include "core/divisors.h"
#include "core/error.h"

namespace tessera {
namespace {

// Longer lists print their first kShown - 1 entries and the last one.
constexpr size_t kShown = 8;

// Joins `names`, leaving out the middle of a long list.
std::string join_shortened(const std::vector<std::string>& names, std::string_view separator) {
  if (names.size() <= kShown) return fmt::format("{}", fmt::join(names, separator));
  return fmt::format("{}{}...{}{}",
                     fmt::join(names.begin(), names.begin() + (kShown - 1), separator), separator,
                     separator, names.back());
}

std::string to_string(const std::vector<int>& group) {
  std::vector<std::string> names;
  for (const int world_rank : group) names.push_back(std::to_string(world_rank));
  return fmt::format("{{{}}}", join_shortened(names, ", "));
}

/// Axes of size 1 are hidden, except for these two.
bool is_shown(const ProcessGrid& grid, Axis axis) {
  return axis == Axis::data || axis == Axis::tensor || grid.size(axis) > 1;
}

std::string groups_text(const ProcessGrid& grid, Axis axis) {
  std::vector<std::string> texts;
  for (const std::vector<int>& group : grid.groups({axis})) texts.push_back(to_string(group));
  return fmt::format("  {:<14} {}\n", fmt::format("{} groups:", to_string(axis)),
                     join_shortened(texts, " "));
}

}  // namespace

std::optional<std::string> grid_problem(int64_t world_size, const GridShape& shape) {
  const std::pair<Axis, int64_t> sizes[] = {{Axis::pipeline, shape.pipeline},
                                            {Axis::context, shape.context},
                                            {Axis::tensor, shape.tensor}};
  int64_t ranks = 1;
  for (const auto& [axis, size] : sizes) {
    if (size < 1) {
      return fmt::format("parallel.{} is {}, but must be at least 1", to_string(axis), size);
    }
    // Beyond the world size, the exact product makes no difference.
    if (ranks <= world_size) ranks *= std::min(size, world_size + 1);
  }
  if (world_size % ranks == 0) {
    const int64_t replicas = world_size / shape.pipeline / shape.tensor;
    const bool all = shape.shards == GridShape::kAllReplicas;
    if (all || (shape.shards > 0 && replicas % shape.shards == 0)) return std::nullopt;
    return fmt::format(
        "parallel.shard is {}, but {} ranks are {} replica{} of the model: choose a divisor of {} "
        "{}, or 0 for all",
        shape.shards, world_size, replicas, replicas == 1 ? "" : "s", replicas, divisors(replicas));
  }
  const std::string world =
      fmt::format("the run has {} {}", world_size, world_size == 1 ? "rank" : "ranks");
  if (shape.pipeline == 1 && shape.context == 1) {
    return fmt::format(
        "parallel.tensor is {}, but {}: each replica of the model takes {} ranks, so choose a "
        "divisor of {} {}, or start a multiple of {} ranks",
        shape.tensor, world, shape.tensor, world_size, divisors(world_size), shape.tensor);
  }
  return fmt::format(
      "parallel.pipeline × context × tensor is {} × {} × {}, but {}: choose sizes whose product "
      "divides {}, or start a multiple of the product",
      shape.pipeline, shape.context, shape.tensor, world, world_size);
}

ProcessGrid::ProcessGrid(int64_t world_size, const GridShape& shape) : shape_(shape) {
  require(world_size >= 1, "a process grid needs at least one rank, not {}", world_size);
  if (const auto problem = grid_problem(world_size, shape)) throw Error(*problem);
  sizes_ = {narrow<int>(shape.pipeline), narrow<int>(world_size / shape.ranks_of_samples()),
            narrow<int>(shape.context), narrow<int>(shape.tensor)};
  const int replicas = size(kReplicaAxes);
  shards_ = shape.shards == GridShape::kAllReplicas ? replicas : narrow<int>(shape.shards);
}

int ProcessGrid::size(AxisSet axes) const {
  int product = 1;
  for (const Axis axis : kAxes) product *= axes.contains(axis) ? size(axis) : 1;
  return product;
}

int ProcessGrid::stride(Axis axis) const {
  AxisSet inner;
  for (const Axis each : kAxes) {
    if (each > axis) inner = inner | AxisSet{each};
  }
  return size(inner);
}

int ProcessGrid::index_of(int world_rank, Axis axis) const {
  require(0 <= world_rank && world_rank < world_size(), "world_rank is {}, but must be in 0 to {}",
          world_rank, world_size() - 1);
  return world_rank / stride(axis) % size(axis);
}

std::vector<int> ProcessGrid::group_of(int world_rank, AxisSet axes) const {
  int first = world_rank;
  for (const Axis axis : kAxes) {
    if (axes.contains(axis)) first -= index_of(world_rank, axis) * stride(axis);
  }
  std::vector<int> group = {first};
  for (const Axis axis : kAxes) {  // from the outermost, so the order is that of the ranks
    if (!axes.contains(axis)) continue;
    std::vector<int> more;
    for (const int rank : group) {
      for (int i = 0; i < size(axis); ++i) more.push_back(rank + i * stride(axis));
    }
    group = std::move(more);
  }
  return group;
}

std::vector<std::vector<int>> ProcessGrid::groups(AxisSet axes) const {
  std::vector<std::vector<int>> found;
  for (int rank = 0; rank < world_size(); ++rank) {
    std::vector<int> group = group_of(rank, axes);
    if (group.front() == rank) found.push_back(std::move(group));
  }
  return found;
}

std::vector<int> ProcessGrid::shards_of(int world_rank) const {
  const std::vector<int> replicas = group_of(world_rank, kReplicaAxes);
  const auto place = std::ranges::find(replicas, world_rank) - replicas.begin();
  const auto first = replicas.begin() + place / shards_ * shards_;
  return {first, first + shards_};
}

std::vector<int> ProcessGrid::copies_of(int world_rank) const {
  const std::vector<int> replicas = group_of(world_rank, kReplicaAxes);
  const auto place = std::ranges::find(replicas, world_rank) - replicas.begin();
  std::vector<int> copies;
  for (auto i = place % shards_; i < std::ssize(replicas); i += shards_) {
    copies.push_back(replicas[static_cast<size_t>(i)]);
  }
  return copies;
}

std::string to_string(const ProcessGrid& grid) {
  std::vector<std::string> axes;
  for (const Axis axis : kAxes) {
    if (is_shown(grid, axis))
      axes.push_back(fmt::format("{} {}", grid.size(axis), to_string(axis)));
  }
  return fmt::format("{}", fmt::join(axes, " × "));
}

std::string to_text(const ProcessGrid& grid) {
  const int ranks = grid.world_size();
  std::string text = fmt::format("{} rank{} = {}\n", ranks, ranks == 1 ? "" : "s", to_string(grid));
  for (const Axis axis : {Axis::tensor, Axis::context, Axis::data, Axis::pipeline}) {
    if (is_shown(grid, axis)) text += groups_text(grid, axis);
  }
  return text;
}

std::vector<Communicator*> ParallelGroups::all() const {
  std::vector<Communicator*> found = {&world};
  for (const auto& group : {tp, cp, pp, dp, replicas, shards, copies}) {
    if (std::ranges::find(found, group.get()) == found.end()) found.push_back(group.get());
  }
  return found;
}

bool ParallelGroups::counts_here(const Parameter& parameter) const {
  const bool is_first = tp->rank() == 0 || !parameter.replicated_over().contains(Axis::tensor);
  return is_first && copies->rank() == 0;
}

void ParallelGroups::require_shards_of(const ParameterStore& store, std::string_view who) const {
  const OptimizerSharding& sharding = store.layout().sharding();
  require(sharding.num_shards == shards->size() && sharding.shard == shards->rank(),
          "{}: the store has optimizer shard {} of {}, but this is rank {} of {} that share them",
          who, sharding.shard, sharding.num_shards, shards->rank(), shards->size());
}

ParallelGroups make_groups(const ProcessGrid& grid, Communicator& world, const MakeGroup& make) {
  const int rank = world.rank();
  std::vector<std::pair<std::vector<int>, std::shared_ptr<Communicator>>> made;
  const auto group = [&](const std::vector<int>& ranks, std::string_view name) {
    for (const auto& [known, communicator] : made) {
      if (known == ranks) return communicator;
    }
    auto communicator = make(ranks, name);
    communicator->set_label({name, ranks.front(), ranks.size() > 1 ? ranks[1] - ranks[0] : 1});
    made.emplace_back(ranks, communicator);
    return communicator;
  };
  const auto along = [&](AxisSet axes) { return grid.group_of(rank, axes); };
  world.set_label({"world", 0, 1});
  const auto tp = group(along({Axis::tensor}), "tensor"), dp = group(along({Axis::data}), "data");
  const auto cp = group(along({Axis::context}), "context");
  const auto pp = group(along({Axis::pipeline}), "pipeline");
  const auto replicas = group(along(kReplicaAxes), "replicas");
  const auto shards = group(grid.shards_of(rank), "shards");
  return {grid, world, tp, cp, pp, dp, replicas, shards, group(grid.copies_of(rank), "copies")};
}

ParallelGroups make_parallel_groups(Communicator& world, const GridShape& shape) {
  const ProcessGrid grid(world.size(), shape);
  return make_groups(grid, world, [&](const std::vector<int>& ranks, std::string_view /*name*/) {
    return std::shared_ptr<Communicator>(world.split(ranks.front(), world.rank()));
  });
}

}  // namespace tessera
