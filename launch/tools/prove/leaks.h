#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/model_config.h"

namespace tessera {

/// A query that depends on a key which its mask hides.
struct Leak {
  enum class Where : uint8_t { output, gradient };
  Where where = Where::output;
  int64_t query = 0;     ///< a row of the batch
  int64_t key = 0;       ///< the hidden row
  int64_t elements = 0;  ///< of the query's output that changed, or of the key's gradient that are
                         ///< not 0
};

struct LeakReport {
  static constexpr size_t kMostListed = 100;

  int64_t rows = 0;
  int64_t hidden = 0;        ///< pairs of a query and a key that the masks of all layers hide
  int64_t visible = 0;       ///< all other pairs
  int64_t seen_changes = 0;  ///< visible pairs where the key did change the query's output
  int64_t leak_count = 0;
  std::vector<Leak> leaks;  ///< at most kMostListed
};

/// Whether the batch of a search hides the rows with a target (TokenBatch::hidden).
struct HiddenTargets {
  bool hidden = false;
  bool claimed = false;
};

/// Searches for leaks through the blocks of a model with random weights, on `tensor` thread ranks,
/// which share the rows if `sequence` (parallel.sequence). The batch has two sequences: three
/// documents, and a single one. With an encoder–decoder, each has a source, whose rows have the
/// numbers after those of the batch, and the outputs are the decoder's. For each row, replaces its
/// input and compares the outputs of all rows bit by bit; and takes the gradient of its output by
/// the inputs of all rows. A query may depend on the keys that it reaches through the masks of all
/// layers, and on no others. The masks that must hold are those of `claimed`, which has as many
/// layers and positions as `config`. If `targets.hidden`, a third of the rows have a target and are
/// hidden from all queries; `targets.claimed` says that they must be.
LeakReport find_leaks(const ModelConfig& config, const ModelConfig& claimed, int tensor,
                      bool sequence, HiddenTargets targets = {});

/// "row 3 depends on row 7, which it must not see: 12 elements of its output change"
std::string to_string(const Leak& leak);

}  // namespace tessera
