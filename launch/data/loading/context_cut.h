#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/masks/attention_mask.h"
#include "core/memory.h"
#include "core/range.h"
#include "models/model_config.h"
#include "models/token_batch.h"

namespace tessera {

/// Cuts rows over ranks: returns the ranges of rows of each rank, in order. Each rank has ⌊N /
/// ranks⌋ or, the first ones, ⌈N / ranks⌉ rows, and about the same sum of `work`, which row n has
/// work[n] of. There are as few ranges as that needs: of one causal document, each rank has one
/// range near its begin and one as near its end ("zig-zag").
std::vector<std::vector<Range>> cut_rows(std::span<const double> work, int ranks);

/// The masks by which rows are cut: layers with a window see `local`, all others `global`.
struct CutMasks {
  AttentionMask local, global;  ///< without tensors
  double local_share = 0.0;     ///< of the layers

  /// The keys that query `t` of a document of `length` rows sees, as the mean of the layers.
  double visible_keys(int64_t t, int64_t length) const;
};

/// The context ranks of a run, and this one.
struct ContextShape {
  int ranks = 1;
  int rank = 0;
  CutMasks masks = {};
  CutMasks source_masks = {};  ///< of an encoder–decoder
};

/// That of a model's batches.
ContextShape context_shape(const ModelConfig& config, int ranks, int rank);

/// The largest part of a batch without data that a rank has; `whole` has the shapes of
/// full_batch_on_meta().
TokenBatch cut_on_meta(const TokenBatch& whole, const ContextShape& context);

/// The part of batches that this context rank has, in memory of its own.
class CutBuffers {
 public:
  /// For batches of up to the size of `largest`, which has no data. Parts for a GPU use pinned
  /// memory.
  CutBuffers(const TokenBatch& largest, const ContextShape& context, Device for_device);

  /// Takes this rank's part of a batch in host memory.
  void cut(const TokenBatch& whole);
  /// The part, valid until the next cut().
  const TokenBatch& batch() const { return batch_; }

  size_t bytes() const;

 private:
  void take_targets(const TokenBatch& whole, const std::vector<Range>& own);
  void take_documents(const TokenBatch& whole, const std::vector<Range>& own);

  ContextShape context_;
  TokenBatch memory_;  // the largest part
  std::vector<OwnedTensor> owned_;
  TokenBatch batch_;
};

}  // namespace tessera
