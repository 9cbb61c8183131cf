#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/support/text/json.h"
#include "models/model_config.h"

namespace tessera {

/// What the layers of a model hide in one row of a batch.
struct MaskView {
  /// Layers with the same mask.
  struct Layers {
    std::vector<int64_t> layers;
    std::string mask;             ///< in words: "causal, window of 5 tokens"
    int64_t visible = 0;          ///< pairs of a query and a key that it sees
    int64_t tiles = 0;            ///< of kTile × kTile pairs
    int64_t skipped = 0;          ///< tiles without a visible pair: kernels skip them
    std::vector<int64_t> counts;  ///< (cells, cells): visible pairs of each cell of the picture
  };
  static constexpr int64_t kTile = 64;       ///< the tile of most GPU kernels
  static constexpr int64_t kMostCells = 64;  ///< of a row of the picture

  int64_t length = 0;  ///< T, tokens of the row
  std::vector<int64_t> documents;
  int64_t cell = 1;  ///< tokens per cell
  int64_t cells = 0;
  std::vector<Layers> kinds;
};

/// Applies the masks of `config` to a row of documents of these lengths, each at least 1 and
/// together at most seq_length. Throws otherwise.
MaskView view_mask(const ModelConfig& config, const std::vector<int64_t>& documents);

/// A picture for each kind of layer, with a line per query: █ is visible, ▒ partly visible, ·
/// hidden.
std::string to_string(const MaskView& view);

/// {"length", "documents", "layers": [{"layers", "mask", "visible", "pairs", "tiles", "skipped",
/// "cell", "counts": [[visible pairs, one a cell of keys], one a cell of queries]}, ...]}
Json to_json(const MaskView& view);

}  // namespace tessera
