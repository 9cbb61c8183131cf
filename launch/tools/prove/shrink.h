#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "launch/config/run_config.h"

namespace tessera {

/// A configuration whose automatic keys have been derived.
struct ConfigToProve {
  RunConfig config;
  std::vector<std::string> made_up;  ///< sentences about what is missing and what stands for it
};

/// Loads a configuration as a run does. A missing checkpoint.from or data file is replaced by the
/// defaults of model.kind and by made-up data in `folder`.
ConfigToProve load_to_prove(const std::string& path, const std::vector<std::string>& overrides,
                            const std::filesystem::path& folder);

/// A small run that uses the features of another one.
struct ShrunkRun {
  RunConfig config;
  std::vector<std::string> left_out;  ///< sentences about what the small run lacks
};

/// Returns a run on CPU ranks, in fp32, with the features of `config`: its architecture, heads and
/// key-value heads, masks, dropout, objective, packing, blend, recomputation and optimizer. Layers,
/// widths, vocabulary, sequences, windows and batches are small; odd sizes stay odd. A global batch
/// divides over 1, 2, 3, 4, 6, 8 and 12 data ranks. Writes its data, of random ids with patterns
/// that a model can learn, to `folder`, which must exist; run.dir is a folder there.
ShrunkRun shrink(const RunConfig& config, const std::filesystem::path& folder);

}  // namespace tessera
