#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/parameters/parameter.h"
#include "launch/checkpoint/format/manifest.h"

namespace tessera {

/// A rank's piece of a global tensor, of which it may have several.
struct HeldTensor {
  std::string name;  ///< of one tensor only, of either kind
  std::string kind;  ///< kModelKind or kOptimizerKind
  Shape global_shape;
  Box box;      ///< the piece; an empty one holds nothing and is not written
  Tensor data;  ///< the piece, without padding, on the CPU or a GPU; on the meta device with `make`
  /// Makes the piece when it is written, so that only one is in memory at a time; what it returns
  /// is needed until the next call of any.
  std::function<Tensor()> make = {};
};

/// What a rank tells the others of its tensors. Throws if they are not as HeldTensor says.
std::string describe_held(const std::vector<HeldTensor>& tensors);

/// One of the slices of SavePlan::tensors.
struct PlannedSlice {
  std::string tensor;
  size_t index = 0;
};

/// A file that one rank writes: slices of one kind, in this order.
struct PlannedFile {
  std::string name;
  std::vector<PlannedSlice> slices;
};

/// Who writes what. The slices of `tensors` have their places, but no checksums yet.
struct SavePlan {
  std::map<std::string, StoredTensor> tensors;
  std::vector<std::vector<PlannedFile>> files_of_rank;

  StoredSlice& slice(const PlannedSlice& planned) {
    return tensors.at(planned.tensor).slices[planned.index];
  }
};

/// The most bytes that one of so many ranks writes, by the rule of plan_save, of slices that all of
/// them hold.
int64_t largest_share(std::vector<int64_t> slice_bytes, int ranks);

/// The same plan on every rank, from what describe_held says on each: a slice that several ranks
/// hold is written by the one that has the least to write so far, the largest slices first. Throws
/// if the ranks disagree on a tensor or do not hold all of it.
SavePlan plan_save(const std::vector<std::string>& held_of_rank);

}  // namespace tessera
