#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "launch/checkpoint/format/manifest.h"

namespace tessera {

/// A piece of a global tensor that this rank writes. The pieces of all ranks tile the tensor; a
/// rank may have several.
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

/// Throws if a rank's tensors violate LocalTensor's rules.
void require_valid(const std::vector<LocalTensor>& tensors);

}  // namespace tessera
