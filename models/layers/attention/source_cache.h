#pragma once

#include <cstddef>
#include <vector>

#include "core/memory.h"
#include "models/layers/attention/cross_attention.h"

namespace tessera {

/// S encoded sources, for generation: the keys and values of each decoder layer, with the heads
/// of this tensor rank. Model::encode() makes it.
struct SourceCache {
  std::vector<OwnedTensor> key_values;  ///< of each layer, (1, Ns, 2 Kl, D)
  OwnedTensor documents;                ///< (S + 1), as SourceTokens::documents

  int64_t sources() const { return documents.tensor.numel() - 1; }
  /// Bytes of all tensors.
  size_t bytes() const;

  /// Views of these for a pass over `length` new tokens of each source, whose boundaries are
  /// allocated in ctx.arena.
  EncodedSource encoded(const StepContext& ctx, int64_t length) const;
};

}  // namespace tessera
