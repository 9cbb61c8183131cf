#include "parallel/process_grid.h"

#include <fmt/ranges.h>

#include <string_view>

#include "core/divisors.h"
#include "core/error.h"

namespace tessera {
namespace {

// Longer lists print their first kShown - 1 entries and the last one.
constexpr size_t kShown = 8;

int checked_data_degree(int world_size, int tensor) {
  require(world_size >= 1, "a process grid needs at least one rank, not {}", world_size);
  if (const auto problem = tensor_size_problem(world_size, tensor)) throw Error(*problem);
  return world_size / tensor;
}

void check_index(int index, int extent, std::string_view name) {
  require(0 <= index && index < extent, "{} is {}, but must be in 0 to {}", name, index,
          extent - 1);
}

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

}  // namespace

std::optional<std::string> tensor_size_problem(int world_size, int64_t tensor) {
  if (tensor >= 1 && world_size % tensor == 0) return std::nullopt;
  if (tensor < 1) return fmt::format("parallel.tensor is {}, but must be at least 1", tensor);
  return fmt::format(
      "parallel.tensor is {}, but the run has {} {}: each replica of the model takes {} ranks, so "
      "choose a divisor of {} {}, or start a multiple of {} ranks",
      tensor, world_size, world_size == 1 ? "rank" : "ranks", tensor, world_size,
      divisors(world_size), tensor);
}

ProcessGrid::ProcessGrid(int world_size, int tensor)
    : tensor_(tensor), data_(checked_data_degree(world_size, tensor)) {}

GridPlace ProcessGrid::place_of(int world_rank) const {
  check_index(world_rank, world_size(), "world_rank");
  return {world_rank / tensor_, world_rank % tensor_};
}

int ProcessGrid::world_rank_of(GridPlace place) const {
  check_index(place.data_index, data_, "data_index");
  check_index(place.tensor_index, tensor_, "tensor_index");
  return place.data_index * tensor_ + place.tensor_index;
}

std::vector<int> ProcessGrid::tensor_group(int data_index) const {
  std::vector<int> group;
  for (int i = 0; i < tensor_; ++i) group.push_back(world_rank_of({data_index, i}));
  return group;
}

std::vector<int> ProcessGrid::data_group(int tensor_index) const {
  std::vector<int> group;
  for (int i = 0; i < data_; ++i) group.push_back(world_rank_of({i, tensor_index}));
  return group;
}

std::string to_string(const ProcessGrid& grid) {
  std::vector<std::string> tensor_groups;
  for (int i = 0; i < grid.data(); ++i) tensor_groups.push_back(to_string(grid.tensor_group(i)));
  std::vector<std::string> data_groups;
  for (int i = 0; i < grid.tensor(); ++i) data_groups.push_back(to_string(grid.data_group(i)));
  return fmt::format(
      "{} rank{} = {} data × {} tensor\n"
      "  tensor groups: {}\n"
      "  data groups:   {}\n",
      grid.world_size(), grid.world_size() == 1 ? "" : "s", grid.data(), grid.tensor(),
      join_shortened(tensor_groups, " "), join_shortened(data_groups, " "));
}

ParallelGroups make_parallel_groups(Communicator& world, int tensor) {
  const ProcessGrid grid(world.size(), tensor);
  const GridPlace place = grid.place_of(world.rank());
  ParallelGroups groups{grid, world, world.split(place.data_index, place.tensor_index),
                        world.split(place.tensor_index, place.data_index)};
  world.set_label({"world", 0, 1});
  groups.tp->set_label({"tensor", grid.world_rank_of({place.data_index, 0}), 1});
  groups.dp->set_label({"data", grid.world_rank_of({0, place.tensor_index}), tensor});
  return groups;
}

}  // namespace tessera
