#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/parameters/parameter.h"
#include "launch/checkpoint/format/manifest.h"

namespace tessera {

/// One piece of a global tensor; a rank may have several.
struct LocalTensor {
  std::string name;  ///< unique over all tensors of both kinds
  std::string kind;  ///< kModelKind or kOptimizerKind
  Shape global_shape;
  Box box;      ///< the piece; an empty one is not written
  Tensor data;  ///< the piece, without padding, on the CPU or a GPU; on the meta device with `make`
  /// Makes the piece when it is written, so that only one is in memory at a time. The result need
  /// only be valid until the next call of any `make`.
  std::function<Tensor()> make = {};
  /// If not empty, what checksum_of() must still return for the bytes that are written.
  std::string checksum = {};
};

/// Describes a rank's tensors for the other ranks. Throws if they violate LocalTensor's rules.
std::string describe_local_tensors(const std::vector<LocalTensor>& tensors);

/// One of the slices of SavePlan::tensors.
struct PlannedSlice {
  std::string tensor;
  size_t index = 0;
};

/// A file written by one rank: slices of one kind, in this order.
struct PlannedFile {
  std::string name;
  std::vector<PlannedSlice> slices;
};

/// Which rank writes which slices. The slices of `tensors` have locations, but no checksums yet.
struct SavePlan {
  std::map<std::string, StoredTensor> tensors;
  std::vector<std::vector<PlannedFile>> files_of_rank;

  StoredSlice& slice(const PlannedSlice& planned) {
    return tensors.at(planned.tensor).slices[planned.index];
  }
};

/// The most bytes that one of `ranks` ranks writes by the rule of plan_save, of slices that all of
/// them have.
int64_t largest_share(std::vector<int64_t> slice_bytes, int ranks);

/// Makes the same plan on every rank from the describe_local_tensors() texts of all ranks. Assigns
/// a slice that several ranks have to the one with the fewest bytes so far, largest slices first.
/// Throws if the ranks disagree on a tensor or do not cover it.
SavePlan plan_save(const std::vector<std::string>& tensors_of_rank);

}  // namespace tessera
