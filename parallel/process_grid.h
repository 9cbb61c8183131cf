#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/axes.h"
#include "core/parameters/parameter.h"
#include "parallel/communicators/communicator.h"
#include "parallel/grid_shape.h"

namespace tessera {

/// Why a run of `world_size` ranks cannot have this shape, and what would work; nullopt if it can.
std::optional<std::string> grid_problem(int64_t world_size, const GridShape& shape);

/// The arithmetic of world = pipeline × data × context × tensor. The tensor axis is innermost, so
/// that the ranks that communicate most are neighbors on a host; the pipeline sends least, and is
/// outermost:
///
///     world_rank = ((stage × data + data_index) × context + context_index) × tensor + tensor_index
class ProcessGrid {
 public:
  /// Throws grid_problem().
  ProcessGrid(int64_t world_size, const GridShape& shape);

  const GridShape& shape() const { return shape_; }
  int world_size() const { return size({Axis::pipeline, Axis::data, Axis::context, Axis::tensor}); }
  int size(Axis axis) const { return sizes_[static_cast<size_t>(axis)]; }
  /// The number of ranks that differ along `axes` alone.
  int size(AxisSet axes) const;
  /// The number of replicas that share one set of optimizer shards.
  int shards() const { return shards_; }
  int data() const { return size(Axis::data); }
  int tensor() const { return size(Axis::tensor); }

  /// The following throw if there is no such rank.
  int index_of(int world_rank, Axis axis) const;
  /// The world ranks that differ from `world_rank` along `axes` alone, itself included, in order.
  std::vector<int> group_of(int world_rank, AxisSet axes) const;
  /// All groups along `axes`, by their first rank.
  std::vector<std::vector<int>> groups(AxisSet axes) const;
  /// The replicas that share shards with `world_rank`, and those that hold a copy of its shard.
  std::vector<int> shards_of(int world_rank) const;
  std::vector<int> copies_of(int world_rank) const;

 private:
  int stride(Axis axis) const;

  GridShape shape_;
  std::array<int, kAxes.size()> sizes_ = {};
  int shards_ = 1;
};

/// "2 data × 2 tensor". Axes of size 1 are left out, but for these two.
std::string to_string(const ProcessGrid& grid);

/// The grid with its groups, for the start-up summary. Long lists are shortened.
///
///     4 ranks = 2 data × 2 tensor
///       tensor groups: {0, 1} {2, 3}
///       data groups:   {0, 2} {1, 3}
std::string to_text(const ProcessGrid& grid);

/// A rank's groups, named by what their ranks share. Groups with the same ranks, other than
/// `world`, are one communicator.
///
/// | a quantity | is exchanged over |
/// |---|---|
/// | samples: who reads which, gathered texts | `dp` |
/// | sums over rows: losses, counts, gradients | `replicas` |
/// | weights and optimizer state | `shards`, and `copies` of them |
/// | sums in which each element counts once | `world`, see counts_here() |
struct ParallelGroups {
  ProcessGrid grid;
  Communicator& world;                     ///< all ranks
  std::shared_ptr<Communicator> tp;        ///< parts of the same rows
  std::shared_ptr<Communicator> cp;        ///< other rows of the same samples
  std::shared_ptr<Communicator> pp;        ///< other blocks
  std::shared_ptr<Communicator> dp;        ///< other samples
  std::shared_ptr<Communicator> replicas;  ///< dp × cp: the same weights, other rows
  std::shared_ptr<Communicator> shards;    ///< replicas that share one set of optimizer shards
  std::shared_ptr<Communicator> copies;    ///< replicas with the same shard

  /// `world` first, and each other communicator once.
  std::vector<Communicator*> all() const;

  /// Whether a sum over the world counts this rank's elements of a parameter: as the first rank of
  /// those that hold the same, or as the owner of an optimizer shard.
  bool counts_here(const Parameter& parameter) const;

  /// Throws unless the optimizer shard of `store` is this rank's in `shards`. `who` begins the
  /// message.
  void require_shards_of(const ParameterStore& store, std::string_view who) const;
};

/// Returns the communicator of the group of `ranks`, in order, called `name`.
using MakeGroup = std::function<std::shared_ptr<Communicator>(const std::vector<int>& ranks,
                                                              std::string_view name)>;

/// Creates the groups of this rank. `make` is called in the same order on all ranks.
ParallelGroups make_groups(const ProcessGrid& grid, Communicator& world, const MakeGroup& make);

/// Splits `world`, which must outlive the result. Collective.
ParallelGroups make_parallel_groups(Communicator& world, const GridShape& shape = {});

}  // namespace tessera
