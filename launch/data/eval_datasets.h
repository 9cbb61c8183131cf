#pragma once

#include <string>
#include <vector>

#include "launch/config/data_blend.h"

namespace tessera {

/// A dataset that an evaluation reads, alone or in a blend.
struct EvalDataset {
  std::string name;              ///< tells it from the others of the blend
  double bytes_per_token = 0.0;  ///< mean of its text, from its metadata; 0: not known
};

/// Names for the datasets of a blend: as many of the last parts of their paths, without extension,
/// as tell them apart: "wiki" and "code", or "wiki/train" and "code/train". A dataset that occurs
/// twice has a number after its name: "wiki", "wiki 2".
std::vector<std::string> dataset_names(const DataBlend& blend);

}  // namespace tessera
