#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/support/text/json.h"
#include "models/model_config.h"

namespace tessera {

/// The masks of a model's layers in one row of a batch.
struct MaskView {
  /// Layers of one stack, and heads of them, with the same mask.
  struct Layers {
    std::string stack;  ///< of an encoder–decoder: "encoder" or "decoder"; otherwise empty
    std::vector<int64_t> layers;
    int64_t num_layers = 0;        ///< of the stack
    std::vector<int64_t> heads;    ///< empty: all of them
    std::string mask;              ///< in words: "causal, window of 5 tokens"
    int64_t visible = 0;           ///< pairs of a query and a key that it sees
    int64_t tiles = 0;             ///< of kTile × kTile pairs
    int64_t skipped = 0;           ///< tiles without a visible pair: kernels skip them
    std::vector<int64_t> counts;   ///< (cells, cells): visible pairs of each cell of the picture
    std::vector<bool> seen_tiles;  ///< (tiles, tiles): whether a tile has a visible pair
  };
  static constexpr int64_t kTile = 64;       ///< the tile of most GPU kernels
  static constexpr int64_t kMostCells = 64;  ///< of a row of the picture

  int64_t length = 0;  ///< T, tokens of the row
  std::vector<int64_t> documents;
  bool separate = true;  ///< whether documents do not attend to each other
  int64_t cell = 1;      ///< tokens per cell
  int64_t cells = 0;
  std::vector<Layers> kinds;

  int64_t tiles_of_row() const { return (length + kTile - 1) / kTile; }
};

/// The longest row of view_mask(): seq_length or, of an encoder–decoder, what its sources and
/// targets may both have.
int64_t longest_row(const ModelConfig& config);

/// Applies the masks of self-attention of `config` to a row of documents of these lengths, each at
/// least 1 and together at most longest_row(). Throws otherwise. The documents of an
/// encoder–decoder are its sources and its targets. If they are not `separate`, they attend to each
/// other as if they were one.
MaskView view_mask(const ModelConfig& config, const std::vector<int64_t>& documents,
                   bool separate = true);

/// A picture for each kind of layer, with a line per query: █ is visible, ▒ partly visible, ·
/// hidden.
std::string to_string(const MaskView& view);

/// "1024 tokens in 2 documents of 1000, 24"
std::string describe_row(const MaskView& view);

/// "layers 0, 3, 6, ... (8 of 22)", after the stack if there are two, and before the heads if they
/// differ: "all 4 layers, heads 0, 2".
std::string name_layers(const MaskView::Layers& kind);

/// "8 of 25 pairs are visible (32.0 %); 6 of 16 tiles of 64 × 64 are skipped"
std::string describe_counts(const MaskView& view, const MaskView::Layers& kind);

/// The pairs in the cell of row `i` and column `j` of a picture; those at the end may be smaller.
int64_t pairs_of(const MaskView& view, int64_t i, int64_t j);

/// {"length", "documents", "separate", "layers": [{"stack", "layers", "mask", "visible", "pairs",
/// "tiles", "skipped", "cell", "counts": [[visible pairs, one a cell of keys], one a cell of
/// queries]},
/// ...]}
Json to_json(const MaskView& view);

}  // namespace tessera
