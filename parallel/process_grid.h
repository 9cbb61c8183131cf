#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "parallel/communicators/communicator.h"

namespace tessera {

/// A rank's coordinates in the grid.
struct GridPlace {
  int data_index = 0;    ///< the replica; equals dp.rank()
  int tensor_index = 0;  ///< the shard of the replica; equals tp.rank()

  bool operator==(const GridPlace&) const = default;
};

/// Why a run of `world_size` ranks cannot have replicas of `tensor` ranks, and what would work;
/// nullopt if it can.
std::optional<std::string> tensor_size_problem(int world_size, int64_t tensor);

/// The arithmetic of world = data × tensor. The tensor axis is innermost, so that the ranks of a
/// replica, which communicate most, are neighbors on a host:
///
///     world_rank = data_index × tensor + tensor_index
class ProcessGrid {
 public:
  /// `tensor` is the configuration's parallel.tensor. Throws unless it divides `world_size`.
  ProcessGrid(int world_size, int tensor);

  int world_size() const { return data_ * tensor_; }
  int tensor() const { return tensor_; }  ///< ranks that share a replica
  int data() const { return data_; }      ///< replicas

  /// The following throw if a rank or an index is outside the grid.
  GridPlace place_of(int world_rank) const;
  int world_rank_of(GridPlace place) const;
  /// The world ranks of replica `data_index`, by tensor index.
  std::vector<int> tensor_group(int data_index) const;
  /// The world ranks that hold shard `tensor_index`, by data index.
  std::vector<int> data_group(int tensor_index) const;

 private:
  int tensor_;
  int data_;
};

/// The groups as text for the start-up summary. Long lists are shortened.
///
///     4 ranks = 2 data × 2 tensor
///       tensor groups: {0, 1} {2, 3}
///       data groups:   {0, 2} {1, 3}
std::string to_string(const ProcessGrid& grid);

/// A rank's communicators.
struct ParallelGroups {
  ProcessGrid grid;
  Communicator& world;               ///< all ranks
  std::unique_ptr<Communicator> tp;  ///< the tensor ranks of this rank's replica
  std::unique_ptr<Communicator> dp;  ///< the data ranks that have this rank's shard
};

/// Splits `world` into a grid with `tensor` tensor ranks. `world` must outlive the result.
/// Collective.
ParallelGroups make_parallel_groups(Communicator& world, int tensor);

}  // namespace tessera
