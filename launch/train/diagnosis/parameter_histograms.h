#pragma once

#include <string>
#include <vector>

#include "core/parameters/optimizer_state.h"
#include "launch/metrics/value_histogram.h"
#include "parallel/process_grid.h"

namespace tessera {

/// Histograms of a parameter of the whole model.
struct ParameterHistograms {
  std::string name;
  ValueHistogram weights;    ///< fp32 masters
  ValueHistogram gradients;  ///< summed over the ranks, before clipping
};

/// Returns the histograms of each trained parameter, in the order of the model, after a step. Each
/// element counts once; the counts do not depend on the layout. The same on every rank. Copies
/// weights and gradients to the host. Collective.
std::vector<ParameterHistograms> parameter_histograms(const OptimizerState& state,
                                                      const ParallelGroups& groups);

}  // namespace tessera
